// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// remaining is what the store says.
func remaining(t *testing.T, c *lock.Client, key string) time.Duration {
	t.Helper()
	holding, err := c.Inspect(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return holding.Remaining
}

func TestLeaveLetsARenewalFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		renewing, leaving := make(chan struct{}), make(chan struct{})
		var calls atomic.Int32
		d.beforeRenew = func(ctx context.Context, _ driver.RenewRequest) error {
			if calls.Add(1) > 1 {
				return nil
			}
			close(renewing)
			<-leaving
			// Leave waits for a mutex, which no test can see. If it did not, it would end this request now.
			for range 1000 {
				runtime.Gosched()
			}
			if ctx.Err() != nil {
				t.Error("a renewal was broken off: it may be applied after the key was left")
			}
			return ctx.Err()
		}
		err := c.Do(t.Context(), "k", func(ctx context.Context, h *lock.Handle) error {
			<-renewing
			close(leaving)
			return h.Leave(ctx, time.Minute)
		}, &lock.DoOptions{TTL: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if got := remaining(t, c, "k"); got != time.Minute {
			t.Errorf("the key stays locked for %s, want %s", got, time.Minute)
		}
		pause(t, 30*time.Second)
		if got := remaining(t, c, "k"); got != 30*time.Second || calls.Load() != 2 {
			t.Errorf("after 30 s the key stays locked for %s, after %d renewals: it was renewed after it was left", got, calls.Load())
		}
	})
}

func TestLeaveWakesWaitersOfTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newHooked(t)
		h, err := c.TryAcquire(t.Context(), "k", 30*time.Minute, 0)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		granted := make(chan time.Duration)
		go func() {
			next, err := c.Acquire(t.Context(), "k", time.Minute, time.Hour)
			if err != nil {
				t.Error(err)
			}
			granted <- time.Since(start)
			_ = next.Release(t.Context())
		}()
		synctest.Wait()
		if err := h.Leave(t.Context(), 2*time.Second); err != nil {
			t.Fatal(err)
		}
		// The poll would ask after 5 s.
		if got := <-granted; got < 2*time.Second || got > 2100*time.Millisecond {
			t.Errorf("the waiter had the lock after %s, want 2 s", got)
		}
	})
}

func TestLeaveAfterTheDeadlineFreesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newHooked(t)
		h, err := c.TryAcquire(t.Context(), "k", 10*time.Second, 0)
		if err != nil {
			t.Fatal(err)
		}
		// Past the deadline of the handle, and before that of the store.
		pause(t, 9950*time.Millisecond)
		var lost *lock.LostError
		if err := h.Leave(t.Context(), time.Minute); !errors.As(err, &lost) || lost.Reason != lock.LossDeadline {
			t.Errorf("leave: %v, want the loss at the deadline", err)
		}
		if got := remaining(t, c, "k"); got != 0 {
			t.Errorf("the key of a lost lock stays locked for %s", got)
		}
	})
}

// A rest is for everybody, and still there is a way to end one that was a mistake.
func TestForceReleaseCutsARestShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newHooked(t)
		if err := mustTry(t, c, "k", time.Hour).Leave(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := c.TryAcquire(t.Context(), "k", time.Hour, 0); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("acquire in the rest: %v", err)
		}
		if _, err := c.ForceRelease(t.Context(), "k", ""); err != nil {
			t.Fatal(err)
		}
		_ = mustTry(t, c, "k", time.Hour).Release(t.Context())
	})
}
