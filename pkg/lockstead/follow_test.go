// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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
		var (
			out     bytes.Buffer
			updates []uint64
			failure error
		)
		f := follower{
			dir: dir, opened: opened, interval: 5 * time.Second, clock: clock.Monotonic(), log: slog.New(slog.NewTextHandler(&out, nil)),
			update: func(b *binding.Binding) { updates = append(updates, b.Lease.Epoch) },
			fail:   func(cause error) { failure = cause },
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
		if len(updates) > 0 || out.Len() > 0 {
			t.Errorf("updates %v and log %q without a change", updates, out.String())
		}

		if err := os.Remove(filepath.Join(dir, binding.KeyPrefix)); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if n := strings.Count(out.String(), "level=WARN"); n != 1 || failure != nil || len(updates) > 0 {
			t.Errorf("%d warnings, failure %v, updates %v for a folder that cannot be read; want one warning", n, failure, updates)
		}
		b.Lease.Epoch = 2
		write()
		pass(6 * time.Second)
		if len(updates) != 1 || updates[0] != 2 {
			t.Errorf("updates %v, want the new epoch once", updates)
		}
		pass(time.Minute)
		if len(updates) != 1 {
			t.Errorf("updates %v without a further change", updates)
		}

		b.Instance = "two"
		write()
		<-ended
		if !errors.Is(failure, lock.ErrBackendChanged) {
			t.Errorf("failure %v, want ErrBackendChanged", failure)
		}
	})
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
