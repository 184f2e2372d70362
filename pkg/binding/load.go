// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// maxEntry bounds what is read of one file: a Secret is at most 1 MiB.
const maxEntry = 1 << 20

// LoadError says that a binding folder cannot be used. Its message ends with the volume stanza that mounts the Secret.
type LoadError struct {
	// Dir is the folder.
	Dir string
	// Err says what is wrong with it.
	Err error
}

func (e *LoadError) Error() string {
	return fmt.Sprintf("lock binding in %s: %v\n%s", e.Dir, e.Err, VolumeStanza("<name of the LockNamespace>", e.Dir))
}

// Unwrap gives the cause.
func (e *LoadError) Unwrap() error { return e.Err }

// VolumeStanza is the part of a pod template that mounts the binding of a LockNamespace at dir.
func VolumeStanza(lockNamespace, dir string) string {
	return fmt.Sprintf(`Mount the binding Secret of the LockNamespace (kubectl get lns shows whether it is Ready):
  spec:
    containers:
    - volumeMounts:
      - {name: lockstead, mountPath: %s, readOnly: true}
    volumes:
    - name: lockstead
      secret: {secretName: %s-lock}`, dir, lockNamespace)
}

// Load reads a mounted binding. Every error is a *LoadError. A Secret volume is replaced as a whole by moving a link, so all entries
// are read through one resolved folder; when the volume moves under the read, Load starts again.
func Load(dir string) (*Binding, error) {
	const attempts = 3
	var err error
	for range attempts {
		var b *Binding
		if b, err = loadOnce(dir); err == nil {
			return b, nil
		}
		if !errors.Is(err, errMoved) {
			break
		}
	}
	return nil, &LoadError{Dir: dir, Err: err}
}

var errMoved = errors.New("the volume changed while it was read")

func loadOnce(dir string) (*Binding, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errors.New("is a file, not a folder")
	}
	// The kubelet's atomic writer keeps the entries in a timestamped folder behind the link "..data".
	resolved := dir
	if target, err := filepath.EvalSymlinks(filepath.Join(dir, "..data")); err == nil {
		resolved = target
	}
	entries, err := readEntries(resolved)
	if err != nil {
		if _, gone := os.Stat(resolved); errors.Is(gone, fs.ErrNotExist) {
			return nil, errMoved
		}
		return nil, err
	}
	if len(entries) == 0 {
		return nil, errors.New("the folder is empty")
	}
	return Parse(entries)
}

func readEntries(dir string) (map[string][]byte, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	entries := make(map[string][]byte, len(files))
	for _, file := range files {
		name := file.Name()
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(name, "..") || !info.Mode().IsRegular() {
			continue
		}
		if info.Size() > maxEntry {
			return nil, fmt.Errorf("entry %q: %d bytes is more than a Secret can hold", name, info.Size())
		}
		if entries[name], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// Parse decodes the entries of a binding Secret. A trailing line break of an entry is ignored.
func Parse(entries map[string][]byte) (*Binding, error) {
	p := parser{entries: entries}
	if provider := p.text(KeyProvider); p.err() == nil && provider != Provider {
		return nil, fmt.Errorf("entry %q: %q is not %q: this is the binding of another service", KeyProvider, provider, Provider)
	}
	b := &Binding{
		Type:          Type(p.text(KeyType)),
		LockNamespace: p.text(KeyLockNamespace),
		Prefix:        p.text(KeyPrefix),
		Instance:      p.text(KeyInstance),
		TTLDefault:    p.duration(KeyTTLDefault),
		TTLMax:        p.duration(KeyTTLMax),
	}
	switch b.Type {
	case TypeRedis:
		b.Redis = &Redis{
			Host:     p.text(KeyHost),
			Port:     int(p.number(KeyPort, 16)),
			Username: p.text(KeyUsername),
			Password: p.text(KeyPassword),
			TLS:      p.boolean(KeyTLS),
			CA:       entries[KeyCA],
			Access:   Access(p.text(KeyAccess)),
		}
		if _, ok := entries[KeyRecordsShare]; ok {
			b.Redis.Records = &Records{Share: int64(p.number(KeyRecordsShare, 63)), MaxResponse: int64(p.number(KeyRecordsMaxResponse, 63))} //nolint:gosec // 63 bits.
		}
	case TypeLease:
		b.Lease = &Lease{
			Epoch:             p.number(KeyEpoch, 64),
			FallbackCondition: p.text(KeyFallbackCondition),
			FallbackFix:       p.text(KeyFallbackFix),
		}
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	if err := b.Validate(); err != nil {
		return nil, err
	}
	return b, nil
}

// parser reads entries and collects what is wrong, so that the user sees everything at once.
type parser struct {
	entries  map[string][]byte
	problems []error
}

func (p *parser) err() error { return errors.Join(p.problems...) }

func (p *parser) fail(name, format string, args ...any) {
	p.problems = append(p.problems, fmt.Errorf("entry %q: "+format, append([]any{name}, args...)...))
}

func (p *parser) text(name string) string {
	raw, ok := p.entries[name]
	if !ok {
		p.fail(name, "is missing")
	}
	return strings.TrimRight(string(raw), "\r\n")
}

func (p *parser) duration(name string) time.Duration {
	s := p.text(name)
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		p.fail(name, "%q is not a duration like 30s", s)
	}
	return d
}

func (p *parser) number(name string, bits int) uint64 {
	s := p.text(name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil {
		p.fail(name, "%q is not a number from 0 up", s)
	}
	return n
}

func (p *parser) boolean(name string) bool {
	s := p.text(name)
	if s == "" {
		return false
	}
	v, err := strconv.ParseBool(s)
	if err != nil {
		p.fail(name, "%q is neither true nor false", s)
	}
	return v
}
