// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lockstead"
)

// patience is far longer than any healthy step takes.
const patience = 30 * time.Second

// refresh is how often the tests let the folder be read.
const refresh = 5 * time.Millisecond

// mount is a folder with a binding, replaced as the kubelet does: new entries in a new folder, then one rename of the link "..data".
type mount struct {
	t   *testing.T
	dir string
}

func newMount(t *testing.T, b *binding.Binding) *mount {
	t.Helper()
	m := &mount{t: t, dir: t.TempDir()}
	m.replace(b)
	return m
}

func (m *mount) replace(b *binding.Binding) {
	m.t.Helper()
	entries, err := b.Encode()
	if err != nil {
		m.t.Fatal(err)
	}
	m.put(entries)
}

func (m *mount) put(entries map[string][]byte) {
	m.t.Helper()
	version := "..v-" + rand.Text()
	m.must(os.Mkdir(filepath.Join(m.dir, version), 0o700))
	for name, value := range entries {
		m.must(os.WriteFile(filepath.Join(m.dir, version, name), value, 0o600))
		link := filepath.Join(m.dir, name)
		if err := os.Symlink(filepath.Join("..data", name), link); err != nil && !errors.Is(err, fs.ErrExist) {
			m.t.Fatal(err)
		}
	}
	next := filepath.Join(m.dir, "..data_tmp")
	m.must(os.Symlink(version, next))
	m.must(os.Rename(next, filepath.Join(m.dir, "..data")))
}

func (m *mount) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func leaseBinding(namespace string) *binding.Binding {
	return &binding.Binding{
		Type: binding.TypeLease, LockNamespace: namespace + "/billing", Prefix: "lk:{" + namespace + "/billing}:", Instance: "instance-1",
		TTLDefault: 20 * time.Second, TTLMax: time.Hour,
		Lease: &binding.Lease{Epoch: 1, FallbackCondition: "NoRedisConfigured", FallbackFix: "create a RedisInstance"},
	}
}

// records keeps log records. It is a slog.Handler.
type records struct {
	mu  sync.Mutex
	all []slog.Record
}

func (r *records) logger() *slog.Logger { return slog.New(r) }

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }

func (r *records) Handle(_ context.Context, record slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, record.Clone())
	return nil
}

// with returns the records of at least a level whose message contains part, as text.
func (r *records) with(level slog.Level, part string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, record := range r.all {
		if record.Level < level || !strings.Contains(record.Message, part) {
			continue
		}
		text := []string{record.Message}
		record.Attrs(func(a slog.Attr) bool {
			text = append(text, a.String())
			return true
		})
		out = append(out, strings.Join(text, " "))
	}
	return slices.Clip(out)
}

// open opens a client and closes it at the end of the test.
func open(t *testing.T, options *lockstead.Options) *lockstead.Client {
	t.Helper()
	c, err := lockstead.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Logf("close: %v", err)
		}
	})
	return c
}
