// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// Cache knows where the programs are kept and builds those that are missing.
type Cache struct {
	// source is the hack/cluster folder of the work tree.
	source string
	// root is the cache folder.
	root string
}

// NewCache returns the cache of programs in the folder root, which are built
// from the modules under source.
func NewCache(source, root string) *Cache { return &Cache{source: source, root: root} }

// Ensure builds the named programs that are missing and returns where each one is.
func (c *Cache) Ensure(ctx context.Context, names ...string) (map[string]string, error) {
	plan, err := c.plan(ctx, names)
	if err != nil {
		return nil, err
	}
	if plan.missing() > 0 {
		unlock, err := c.lock()
		if err != nil {
			return nil, err
		}
		defer unlock()
		if err := plan.build(ctx); err != nil {
			return nil, err
		}
	}
	paths := map[string]string{}
	for _, t := range plan {
		for _, p := range t.programs {
			paths[p.Name] = filepath.Join(t.dir, p.Name)
		}
	}
	return paths, nil
}

// EnsureAssets builds what tests of the API need and returns one folder that
// holds exactly those programs, in the form that envtest expects.
func (c *Cache) EnsureAssets(ctx context.Context) (string, error) {
	paths, err := c.Ensure(ctx, Assets()...)
	if err != nil {
		return "", err
	}
	return c.linkFolder(paths)
}

// linkFolder makes a folder of symbolic links to programs, named after what it
// links to, so that its path changes when and only when the programs do.
func (c *Cache) linkFolder(programs map[string]string) (string, error) {
	names := make([]string, 0, len(programs))
	for name := range programs {
		names = append(names, name)
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		fmt.Fprintln(sum, programs[name])
	}
	dir := filepath.Join(c.root, "bin", "assets-"+hex.EncodeToString(sum.Sum(nil))[:12])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	staged, err := os.MkdirTemp(filepath.Dir(dir), stagedPrefix)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(staged) //nolint:errcheck // Gone after the rename; otherwise litter in a cache.
	if err := os.Chmod(staged, 0o755); err != nil {
		return "", err
	}
	for _, name := range names {
		if err := os.Symlink(programs[name], filepath.Join(staged, name)); err != nil {
			return "", err
		}
	}
	// Another caller may have been quicker; its folder has the same content.
	if err := os.Rename(staged, dir); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return "", err
	}
	return dir, nil
}

// lock keeps a second caller from building the same programs at the same time.
// The kernel drops the lock when the process ends, however it ends.
func (c *Cache) lock() (unlock func(), err error) {
	if err := os.MkdirAll(c.root, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(c.root, "build.lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		fmt.Fprintln(os.Stderr, "waiting for another build of the cluster's programs to end")
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// target is one group with those of its programs that are wanted.
type target struct {
	Group
	programs []Program
	version  string
	// source is the folder of the group's go.mod, dir its folder in the cache.
	source, dir string
}

func (c *Cache) plan(ctx context.Context, names []string) (plan, error) {
	var p plan
	found := 0
	for _, g := range groups() {
		t := target{Group: g, source: filepath.Join(c.source, g.Name)}
		for _, program := range g.Programs {
			if slices.Contains(names, program.Name) {
				t.programs = append(t.programs, program)
			}
		}
		if len(t.programs) == 0 {
			continue
		}
		found += len(t.programs)
		var err error
		if t.version, err = t.moduleVersion(); err != nil {
			return nil, err
		}
		key, err := t.key(ctx)
		if err != nil {
			return nil, err
		}
		t.dir = filepath.Join(c.root, "bin", g.Name+"-"+t.version+"-"+key)
		p = append(p, t)
	}
	if found != len(names) {
		return nil, fmt.Errorf("of the programs %v, %d cannot be built here", names, len(names)-found)
	}
	return p, nil
}

// moduleVersion reads the version from go.mod itself: asking the go command
// would cost more than the rest of a run that finds everything built.
func (t target) moduleVersion() (string, error) {
	file := filepath.Join(t.source, "go.mod")
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == t.Module && fields[1] != "=>" {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s does not require %s; run `go get %s` there", file, t.Module, t.Module)
}

// key hashes everything that decides what is built: the module's files, the
// compiler, the platform and the flags.
func (t target) key(ctx context.Context) (string, error) {
	compiler, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("ask the go command for its version: %w", err)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s %s %q\n", compiler, runtime.GOOS, runtime.GOARCH, t.flags())
	files, err := os.ReadDir(t.source)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if f.IsDir() || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(t.source, f.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", f.Name(), len(content), content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// stampWith fills a version like v1.37.2 into a stamp.
func stampWith(stamp, version string) string {
	parts := append(strings.Split(strings.TrimPrefix(version, "v"), "."), "", "")
	return strings.NewReplacer("{version}", version, "{major}", parts[0], "{minor}", parts[1]).Replace(stamp)
}

func (t target) flags() []string {
	link := []string{"-s", "-w"}
	for _, stamp := range t.Stamp {
		link = append(link, "-X", stampWith(stamp, t.version))
	}
	flags := []string{"-trimpath", "-ldflags", strings.Join(link, " ")}
	if len(t.Tags) > 0 {
		flags = append(flags, "-tags", strings.Join(t.Tags, ","))
	}
	return flags
}
