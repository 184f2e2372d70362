// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

const testPrefix = "lk:{test/one}:"

// hooked is a memlock whose calls a test can watch and delay. Hooks run before the call is passed on.
type hooked struct {
	*memlock.Driver
	acquires        atomic.Int32
	beforeAcquire   func(ctx context.Context, req driver.AcquireRequest) error
	afterAcquire    func(ctx context.Context, req driver.AcquireRequest)
	passes          atomic.Int32
	beforePass      func(ctx context.Context, req driver.PassRequest) error
	afterPass       func(ctx context.Context, req driver.PassRequest) error
	beforeRenew     func(ctx context.Context, req driver.RenewRequest) error
	beforeRelease   func(ctx context.Context, req driver.ReleaseRequest) error
	beforeSubscribe func() error
}

func (h *hooked) Subscribe(ctx context.Context, key driver.Key) (driver.Subscription, error) {
	if h.beforeSubscribe != nil {
		if err := h.beforeSubscribe(); err != nil {
			return nil, err
		}
	}
	return h.Driver.Subscribe(ctx, key)
}

func (h *hooked) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	h.acquires.Add(1)
	if h.beforeAcquire != nil {
		if err := h.beforeAcquire(ctx, req); err != nil {
			return driver.Grant{}, err
		}
	}
	grant, err := h.Driver.Acquire(ctx, req)
	if h.afterAcquire != nil {
		h.afterAcquire(ctx, req)
	}
	return grant, err
}

func (h *hooked) Pass(ctx context.Context, req driver.PassRequest) (driver.Grant, error) {
	h.passes.Add(1)
	if h.beforePass != nil {
		if err := h.beforePass(ctx, req); err != nil {
			return driver.Grant{}, err
		}
	}
	grant, err := h.Driver.Pass(ctx, req)
	if h.afterPass != nil {
		if err := h.afterPass(ctx, req); err != nil {
			return driver.Grant{}, err
		}
	}
	return grant, err
}

func (h *hooked) Renew(ctx context.Context, req driver.RenewRequest) (driver.Renewal, error) {
	if h.beforeRenew != nil {
		if err := h.beforeRenew(ctx, req); err != nil {
			return driver.Renewal{}, err
		}
	}
	return h.Driver.Renew(ctx, req)
}

func (h *hooked) Release(ctx context.Context, req driver.ReleaseRequest) error {
	if h.beforeRelease != nil {
		if err := h.beforeRelease(ctx, req); err != nil {
			return err
		}
	}
	return h.Driver.Release(ctx, req)
}

// newHooked makes a store and a client on the fake clock of the synctest bubble.
func newHooked(t *testing.T) (*hooked, *lock.Client) {
	t.Helper()
	c := clock.Monotonic()
	d := &hooked{Driver: memlock.New(&memlock.Options{Clock: c})}
	return d, newClient(t, d, &lock.Options{Clock: c})
}

func newClient(t *testing.T, d driver.Driver, options *lock.Options) *lock.Client {
	t.Helper()
	c, err := lock.New(d, testPrefix, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	<-time.NewTimer(d).C
	synctest.Wait()
}

func TestDeadlineCountsFromBeforeTheSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		d.beforeAcquire = func(context.Context, driver.AcquireRequest) error {
			pause(t, 2*time.Second) // limiter, pool, dial
			return nil
		}
		d.afterAcquire = func(context.Context, driver.AcquireRequest) {
			pause(t, 2*time.Second) // a slow answer
		}
		h, err := c.TryAcquire(t.Context(), "k", 10*time.Second, 0)
		if err != nil {
			t.Fatal(err)
		}
		// 10 s less 4 s under way, 1 % of the TTL, and a guard of 1 % of it.
		if got, want := h.Remaining(), 5800*time.Millisecond; got != want {
			t.Errorf("%s remain, want %s", got, want)
		}
		pause(t, 5799*time.Millisecond)
		if !h.Valid() || h.Context().Err() != nil {
			t.Errorf("the handle ended before its deadline: %v", h.Err())
		}
		pause(t, time.Millisecond)
		if h.Context().Err() == nil || h.Valid() {
			t.Errorf("the handle is valid at its deadline")
		}
		var lost *lock.LostError
		if !errors.As(context.Cause(h.Context()), &lost) || lost.Reason != lock.LossDeadline {
			t.Errorf("cause is %v, want a loss by deadline", context.Cause(h.Context()))
		}
	})
}

func TestAnswerAfterTheDeadlineIsNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		var ids []string
		d.afterAcquire = func(_ context.Context, req driver.AcquireRequest) {
			ids = append(ids, req.ID)
			pause(t, 985*time.Millisecond) // past the deadline of a TTL of 1 s, before the attempt times out
		}
		_, err := c.TryAcquire(t.Context(), "k", time.Second, 0)
		if !errors.Is(err, lock.ErrUnknown) {
			t.Fatalf("error is %v, want ErrUnknown", err)
		}
		pause(t, 10*time.Millisecond)
		d.afterAcquire = nil
		if _, err := c.TryAcquire(t.Context(), "k", time.Second, 0); err != nil {
			t.Errorf("the late grant was not released by its id: %v", err)
		}
		if len(ids) != 1 {
			t.Errorf("%d acquires were sent, want 1", len(ids))
		}
	})
}

// suspended is a clock whose time goes on while its timers do not, like CLOCK_BOOTTIME over a sleep of the machine.
type suspended struct {
	clock.Clock
	slept atomic.Int64
}

func (s *suspended) Now() clock.Instant { return s.Clock.Now().Add(time.Duration(s.slept.Load())) }

func TestSleepOfTheMachineEndsTheHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &suspended{Clock: clock.Monotonic()}
		client := newClient(t, memlock.New(nil), &lock.Options{Clock: c})
		h, err := client.TryAcquire(t.Context(), "k", 10*time.Minute, 0)
		if err != nil {
			t.Fatal(err)
		}
		other, err := client.TryAcquire(t.Context(), "other", 10*time.Minute, 0)
		if err != nil {
			t.Fatal(err)
		}
		c.slept.Store(int64(time.Hour))
		if h.Valid() {
			t.Error("the handle is valid at the first check after the sleep")
		}
		pause(t, time.Second)
		if other.Context().Err() == nil {
			t.Error("a context that nobody asked lives more than a second after the sleep")
		}
	})
}

func TestShorterRenewalShortensBeforeItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		h, err := c.TryAcquire(t.Context(), "k", time.Hour, 0)
		if err != nil {
			t.Fatal(err)
		}
		d.beforeRenew = func(context.Context, driver.RenewRequest) error {
			if left := h.Remaining(); left > 10*time.Second {
				t.Errorf("%s remain while a renewal for 10 s is under way", left)
			}
			return &driver.StoreError{Outcome: driver.ErrUnknown, Op: "renew", Reason: "connection"}
		}
		if err := h.Renew(t.Context(), 10*time.Second); !errors.Is(err, lock.ErrUnknown) {
			t.Fatalf("error is %v, want ErrUnknown", err)
		}
		pause(t, 10*time.Second)
		if h.Valid() {
			t.Error("the handle outlives a shorter renewal that may have been applied")
		}
	})
}

func TestRenewalThatAnswersAfterTheDeadlineDoesNotRevive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		h, err := c.TryAcquire(t.Context(), "k", 10*time.Second, 0)
		if err != nil {
			t.Fatal(err)
		}
		pause(t, 9*time.Second)
		d.beforeRenew = func(context.Context, driver.RenewRequest) error {
			pause(t, 900*time.Millisecond)
			return nil
		}
		if err := h.Renew(t.Context(), 0); !errors.Is(err, lock.ErrLost) {
			t.Errorf("error is %v, want ErrLost", err)
		}
		if h.Valid() || h.Context().Err() == nil {
			t.Error("a lost handle was revived")
		}
	})
}

func TestLossReportedBeforeTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		d.afterAcquire = func(_ context.Context, req driver.AcquireRequest) { req.OnLost(errors.New("deleted by hand")) }
		_, err := c.TryAcquire(t.Context(), "k", 10*time.Second, 0)
		if !errors.Is(err, lock.ErrLost) {
			t.Errorf("error is %v, want ErrLost", err)
		}
	})
}

// TestLateAcquireIsReleased is the lost request that overtakes nothing: it is applied after the first release by id was answered "not
// the holder".
func TestLateAcquireIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		d.beforeAcquire = func(_ context.Context, req driver.AcquireRequest) error {
			d.beforeAcquire = nil
			go func() {
				pause(t, 300*time.Millisecond)
				if _, err := d.Driver.Acquire(context.Background(), req); err != nil {
					t.Errorf("late acquire: %v", err)
				}
			}()
			return &driver.StoreError{Outcome: driver.ErrUnknown, Op: "acquire", Reason: "timeout"}
		}
		if _, err := c.TryAcquire(t.Context(), "k", time.Minute, 0); !errors.Is(err, lock.ErrUnknown) {
			t.Fatalf("error is %v, want ErrUnknown", err)
		}
		pause(t, 350*time.Millisecond)
		pause(t, 5*time.Second)
		if _, err := c.TryAcquire(t.Context(), "k", time.Minute, 0); err != nil {
			t.Errorf("the late acquire was not released: %v", err)
		}
	})
}

func TestOnlyTheHeadOfTheQueueAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		h, err := c.TryAcquire(t.Context(), "k", time.Hour, 0)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []int
		var work sync.WaitGroup
		const waiters = 40
		for i := range waiters {
			work.Go(func() {
				h, err := c.Acquire(t.Context(), "k", time.Hour, time.Minute)
				if err != nil {
					t.Errorf("waiter %d: %v", i, err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				_ = h.Release(t.Context())
			})
			synctest.Wait()
		}
		d.acquires.Store(0)
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		work.Wait()
		for i, got := range order {
			if got != i {
				t.Fatalf("waiters were served in the order %v", order)
			}
		}
		if n := d.acquires.Load(); n > 2*waiters {
			t.Errorf("%d acquires for %d hand-overs", n, waiters)
		}
	})
}

// TestReleaseBeforeTheSubscriptionIsNotMissed frees the key after the waiter was refused and before its subscription is confirmed, so
// that no notification reaches it.
func TestReleaseBeforeTheSubscriptionIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		h, err := c.TryAcquire(t.Context(), "k", time.Hour, 0)
		if err != nil {
			t.Fatal(err)
		}
		d.beforeSubscribe = func() error {
			// Straight to the store: a release by the handle would wake the waiters of this process as well.
			if err := d.Driver.Release(t.Context(), driver.ReleaseRequest{Key: driver.Key{Prefix: testPrefix, Name: "k"}, ID: h.ID()}); err != nil {
				t.Error(err)
			}
			return nil
		}
		start := time.Now()
		if _, err := c.Acquire(t.Context(), "k", time.Hour, time.Minute); err != nil {
			t.Fatalf("the waiter slept on: %v", err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("the waiter slept for %s although the key was free", waited)
		}
	})
}

// TestWaiterWhoseSubscriptionFailsIsNotDeafForLong: with the poll set to an hour, a waiter that could not subscribe would sleep through the
// release.
func TestWaiterWhoseSubscriptionFailsIsNotDeafForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Monotonic()
		d := &hooked{Driver: memlock.New(&memlock.Options{Clock: c})}
		holder, waiter := newClient(t, d, &lock.Options{Clock: c}), newClient(t, d, &lock.Options{Clock: c, PollInterval: time.Hour})
		h, err := holder.TryAcquire(t.Context(), "k", time.Hour, 0)
		if err != nil {
			t.Fatal(err)
		}
		faults := 3
		d.beforeSubscribe = func() error {
			if faults--; faults >= 0 {
				return &driver.StoreError{Outcome: driver.ErrUnavailable, Op: "subscribe", Reason: "connection"}
			}
			return nil
		}
		go func() {
			pause(t, 10*time.Second)
			_ = h.Release(context.Background())
		}()
		if _, err := waiter.Acquire(t.Context(), "k", time.Hour, time.Minute); err != nil {
			t.Errorf("the waiter slept through the release: %v", err)
		}
	})
}

func TestFailedWaitIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		if _, err := c.TryAcquire(t.Context(), "k", time.Hour, 0); err != nil {
			t.Fatal(err)
		}
		d.acquires.Store(0)
		if _, err := c.Acquire(t.Context(), "k", time.Hour, 5*time.Second); !errors.Is(err, lock.ErrHeld) {
			t.Fatalf("error is %v, want ErrHeld", err)
		}
		if n := d.acquires.Load(); n > 4 {
			t.Errorf("a wait of 5 s that failed cost %d acquires, want at most 4", n)
		}
	})
}

func TestDoReleasesAfterTheWorkHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		var returned atomic.Bool
		d.beforeRelease = func(context.Context, driver.ReleaseRequest) error {
			if !returned.Load() {
				t.Error("the store was told of the release before the work had returned")
			}
			return nil
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("shutting down")
		err := c.Do(ctx, "k", func(ctx context.Context, h *lock.Handle) error {
			cancel(stop)
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, stop) {
				t.Errorf("cause of the work's context is %v, want %v", cause, stop)
			}
			pause(t, 5*time.Second) // the work drains
			if !h.Valid() {
				t.Errorf("the lock ended while the work drained: %v", h.Err())
			}
			returned.Store(true)
			return context.Cause(ctx)
		}, &lock.DoOptions{TTL: 3 * time.Second})
		if !errors.Is(err, stop) || errors.Is(err, lock.ErrLost) {
			t.Errorf("error is %v, want %v alone", err, stop)
		}
	})
}

func TestDoEndsAtItsMaximumHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newHooked(t)
		start := time.Now()
		err := c.Do(t.Context(), "k", func(ctx context.Context, _ *lock.Handle) error {
			<-ctx.Done()
			return nil
		}, &lock.DoOptions{TTL: 3 * time.Second, MaxHold: time.Minute})
		var lost *lock.LostError
		if !errors.As(err, &lost) || lost.Reason != lock.LossMaxHold {
			t.Errorf("error is %v, want a loss by maximum hold", err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("the work was stopped after %s, want 1m0s", took)
		}
	})
}

func TestDoTellsTheWorkWhenRenewalsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		d.beforeRenew = func(context.Context, driver.RenewRequest) error {
			return &driver.StoreError{Outcome: driver.ErrUnavailable, Op: "renew", Reason: "connection"}
		}
		start := time.Now()
		err := c.Do(t.Context(), "k", func(ctx context.Context, _ *lock.Handle) error {
			<-ctx.Done()
			return nil
		}, &lock.DoOptions{TTL: 10 * time.Second})
		if !errors.Is(err, lock.ErrLost) {
			t.Errorf("error is %v, want ErrLost", err)
		}
		if took := time.Since(start); took != 9800*time.Millisecond {
			t.Errorf("the work was told after %s, want 9.8s", took)
		}
	})
}

func TestFaultOfTheReleaseDoesNotFailTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		faults := 3
		d.beforeRelease = func(context.Context, driver.ReleaseRequest) error {
			if faults--; faults >= 0 {
				return &driver.StoreError{Outcome: driver.ErrUnknown, Op: "release", Reason: "connection"}
			}
			return nil
		}
		if err := c.Do(t.Context(), "k", func(context.Context, *lock.Handle) error { return nil }, nil); err != nil {
			t.Errorf("error is %v, want nil: the work is done", err)
		}
		pause(t, 5*time.Second)
		if _, err := c.TryAcquire(t.Context(), "k", time.Minute, 0); err != nil {
			t.Errorf("the release did not go on in the background: %v", err)
		}
	})
}
