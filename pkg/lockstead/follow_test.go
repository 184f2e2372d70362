// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

func TestFollowerPassesOnWhatChangesAndBearsWhatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		b := &binding.Binding{
			Type: binding.TypeLease, LockNamespace: "payments/billing", Prefix: "lk:{payments/billing}:", Instance: "one",
			TTLDefault: time.Second, TTLMax: time.Minute, Lease: &binding.Lease{Epoch: 1},
		}
		write := func() {
			t.Helper()
			entries, err := b.Encode()
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range entries {
				if err := os.WriteFile(filepath.Join(dir, name), value, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		write()
		opened, err := binding.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		seen := &followed{}
		f := follower{
			dir: dir, opened: opened, interval: 5 * time.Second, clock: clock.Monotonic(), log: slog.New(slog.NewTextHandler(seen, nil)),
			update: seen.update, fail: seen.fail,
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.run(t.Context())
		}()
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		pass(time.Minute)
		if log, updates, _ := seen.so(); len(updates) > 0 || log != "" {
			t.Errorf("updates %v and log %q without a change", updates, log)
		}

		if err := os.Remove(filepath.Join(dir, binding.KeyPrefix)); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		log, updates, failure := seen.so()
		if n := strings.Count(log, "level=WARN"); n != 1 || failure != nil || len(updates) > 0 {
			t.Errorf("%d warnings, failure %v, updates %v for a folder that cannot be read; want one warning", n, failure, updates)
		}
		b.Lease.Epoch = 2
		write()
		pass(6 * time.Second)
		if _, updates, _ := seen.so(); len(updates) != 1 || updates[0] != 2 {
			t.Errorf("updates %v, want the new epoch once", updates)
		}
		pass(time.Minute)
		if _, updates, _ := seen.so(); len(updates) != 1 {
			t.Errorf("updates %v without a further change", updates)
		}

		b.Instance = "two"
		write()
		<-ended
		if _, _, failure := seen.so(); !errors.Is(failure, lock.ErrBackendChanged) {
			t.Errorf("failure %v, want ErrBackendChanged", failure)
		}
	})
}

// followed is what a follower did so far.
type followed struct {
	mu      sync.Mutex
	log     strings.Builder
	updates []uint64
	failure error
}

func (f *followed) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(p)
}

func (f *followed) update(b *binding.Binding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.updates = append(f.updates, b.Lease.Epoch)
}

func (f *followed) fail(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = cause
}

func (f *followed) so() (log string, updates []uint64, failure error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String(), slices.Clone(f.updates), f.failure
}

func TestFollowerEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			follower{interval: time.Hour, clock: clock.Monotonic()}.run(ctx)
		}()
		synctest.Wait()
		cancel()
		<-ended
	})
}
