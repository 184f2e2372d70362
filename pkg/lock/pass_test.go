// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

// waitingFor starts a goroutine that waits for "k" for up to a minute, and returns when it sleeps.
func waitingFor(ctx context.Context, c *lock.Client, ttl time.Duration) <-chan granted {
	got := make(chan granted, 1)
	go func() {
		h, err := c.Acquire(ctx, "k", ttl, time.Minute)
		got <- granted{h, err}
	}()
	synctest.Wait()
	return got
}

type granted struct {
	h   *lock.Handle
	err error
}

func mustTake(t *testing.T, c *lock.Client) *lock.Handle {
	t.Helper()
	h, err := c.TryAcquire(t.Context(), "k", time.Hour, 0)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func mustInspect(t *testing.T, d *hooked) driver.Holding {
	t.Helper()
	holding, err := d.Inspect(t.Context(), driver.Key{Prefix: testPrefix, Name: "k"})
	if err != nil {
		t.Fatal(err)
	}
	return holding
}

func TestPassIsANewGrantWithTheTermsOfTheWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		first := mustTake(t, c)
		d.beforePass = func(context.Context, driver.PassRequest) error {
			if first.Valid() || first.Context().Err() == nil {
				t.Error("the old handle was not over when the pass was sent")
			}
			pause(t, 2*time.Second) // limiter, pool, dial
			return nil
		}
		d.beforeRelease = func(context.Context, driver.ReleaseRequest) error {
			t.Error("the lock was released, want it passed on")
			return nil
		}
		d.acquires.Store(0)
		got := waitingFor(t.Context(), c, 10*time.Second)
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := <-got
		if next.err != nil {
			t.Fatal(next.err)
		}
		if n := d.acquires.Load(); n != 2 {
			t.Errorf("the waiter asked %d times, want 2: at first, and after its subscription", n)
		}
		if next.h.ID() == first.ID() || !first.Token().Less(next.h.Token()) {
			t.Errorf("passed on as %s with token %s, the old one was %s with token %s", next.h.ID(), next.h.Token(), first.ID(), first.Token())
		}
		if holding := mustInspect(t, d); holding.ID != next.h.ID() || holding.Token != next.h.Token() {
			t.Errorf("the store has %+v, want the new acquisition", holding)
		}
		// 10 s less 2 s under way, 1 % of the TTL, and a guard of 1 % of it.
		if left, want := next.h.Remaining(), 7800*time.Millisecond; left != want {
			t.Errorf("%s remain, want %s", left, want)
		}
		d.beforeRelease = nil
		if err := next.h.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// takeTurns lets goroutines hold the lock one after another, each for hold, and returns when each of them got it.
func takeTurns(t *testing.T, c *lock.Client, n int, hold time.Duration) (holds []time.Time, wait func()) {
	t.Helper()
	holds = make([]time.Time, n)
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			h, err := c.Acquire(t.Context(), "k", time.Hour, time.Minute)
			if err != nil {
				t.Errorf("waiter %d: %v", i, err)
				return
			}
			holds[i] = time.Now()
			if hold > 0 {
				<-time.NewTimer(hold).C
			}
			_ = h.Release(t.Context())
		})
		synctest.Wait()
	}
	return holds, work.Wait
}

// After 16 passes, or 100 ms, another process that waits gets the lock, since the head of this one waits for a pause.
func TestAProcessDoesNotKeepTheLockForItself(t *testing.T) {
	for name, tc := range map[string]struct {
		hold time.Duration
		// wantPasses is how many goroutines get the lock from the one before, until it is the turn of the other process.
		wantPasses int
	}{
		"16 passes":              {0, 16},
		"100 ms of many holds":   {30 * time.Millisecond, 3},
		"100 ms of a single one": {time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, c := newHooked(t)
				other := newClient(t, d, &lock.Options{Clock: clock.Monotonic()})
				first := mustTake(t, c)
				const waiters = 20
				holds, wait := takeTurns(t, c, waiters, tc.hold)
				var theirs time.Time
				var passesBefore int32
				var elsewhere sync.WaitGroup
				elsewhere.Go(func() {
					h, err := other.Acquire(t.Context(), "k", time.Hour, time.Minute)
					if err != nil {
						t.Error(err)
						return
					}
					theirs, passesBefore = time.Now(), d.passes.Load()
					_ = h.Release(t.Context())
				})
				synctest.Wait()
				if tc.hold > 0 {
					<-time.NewTimer(tc.hold).C
				}
				if err := first.Release(t.Context()); err != nil {
					t.Error(err)
				}
				elsewhere.Wait()
				wait()
				if int(passesBefore) != tc.wantPasses {
					t.Errorf("%d passes before the other process had its turn, want %d", passesBefore, tc.wantPasses)
				}
				if next := holds[tc.wantPasses]; next.Sub(theirs) != 10*time.Millisecond {
					t.Errorf("this process asked again %s after it had given the lock up, want 10ms", next.Sub(theirs))
				}
			})
		})
	}
}

// A pass that the store refuses, for example because it is not armed or its memory is full, is a release in the ordinary way.
func TestARefusedPassIsARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		first := mustTake(t, c)
		got := waitingFor(t.Context(), c, time.Hour)
		d.beforePass = func(context.Context, driver.PassRequest) error {
			return &driver.StoreError{Outcome: driver.ErrUnavailable, Op: "pass", Reason: "oom", Lasting: true}
		}
		start := time.Now()
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if next := <-got; next.err != nil || !next.h.Valid() {
			t.Errorf("the waiter got %v", next.err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("the waiter slept for %s although the lock was free", waited)
		}
	})
}

func TestAPassByAHandleThatTheStoreDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		first := mustTake(t, c)
		got := waitingFor(t.Context(), c, time.Hour)
		key := driver.Key{Prefix: testPrefix, Name: "k"}
		d.beforePass = func(ctx context.Context, _ driver.PassRequest) error {
			d.beforePass = nil
			return d.Driver.Release(ctx, driver.ReleaseRequest{Key: key, ID: first.ID()})
		}
		var lost *lock.LostError
		if err := first.Release(t.Context()); !errors.As(err, &lost) || lost.Reason != lock.LossNotHolder {
			t.Errorf("error is %v, want a loss", err)
		}
		if next := <-got; next.err != nil || !next.h.Valid() {
			t.Errorf("the waiter got %v", next.err)
		}
	})
}

// Whether a pass whose answer was lost was applied or not, the waiter does not hold the lock by it, and it is free soon.
func TestUnknownPass(t *testing.T) {
	for name, applied := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, c := newHooked(t)
				first := mustTake(t, c)
				got := waitingFor(t.Context(), c, time.Hour)
				lost := &driver.StoreError{Outcome: driver.ErrUnknown, Op: "pass", Reason: "connection"}
				var passedTo string
				hook := func(_ context.Context, req driver.PassRequest) error {
					passedTo = req.To.ID
					return lost
				}
				if applied {
					d.afterPass = hook
				} else {
					d.beforePass = hook
				}
				if err := first.Release(t.Context()); !errors.Is(err, lock.ErrUnknown) {
					t.Errorf("error is %v, want ErrUnknown", err)
				}
				start := time.Now()
				next := <-got
				if next.err != nil {
					t.Fatal(next.err)
				}
				if next.h.ID() == passedTo {
					t.Error("the waiter holds the lock by a pass of which nobody knows whether it was applied")
				}
				if waited := time.Since(start); waited > time.Second {
					t.Errorf("the lock was free after %s, want it released by its id", waited)
				}
			})
		})
	}
}

// A waiter that gives up while the lock is being passed to it leaves it free.
func TestAWaiterThatGivesUpDuringThePass(t *testing.T) {
	for name, giveUp := range map[string]func(c *lock.Client, cancel context.CancelFunc){
		"its caller has gone": func(_ *lock.Client, cancel context.CancelFunc) { cancel() },
		"the client failed":   func(c *lock.Client, _ context.CancelFunc) { c.Fail(lock.ErrBackendChanged) },
		"the client is closed": func(c *lock.Client, _ context.CancelFunc) {
			_ = c.Close(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, c := newHooked(t)
				first := mustTake(t, c)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				got := waitingFor(ctx, c, time.Hour)
				var next granted
				d.afterPass = func(context.Context, driver.PassRequest) error {
					giveUp(c, cancel)
					next = <-got
					return nil
				}
				_ = first.Release(t.Context())
				if next.err == nil {
					t.Error("the waiter got the lock")
				}
				synctest.Wait()
				if holding := mustInspect(t, d); holding.Held {
					t.Errorf("nobody waits, and the store has %+v", holding)
				}
			})
		})
	}
}

// A pass that is under way when the wait ends is let finish, as an acquire is.
func TestThePassThatOutlastsTheWaitIsLetFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		first := mustTake(t, c)
		got := make(chan granted, 1)
		go func() {
			h, err := c.Acquire(t.Context(), "k", time.Hour, 50*time.Millisecond)
			got <- granted{h, err}
		}()
		pause(t, 40*time.Millisecond)
		d.beforePass = func(context.Context, driver.PassRequest) error {
			pause(t, 2*time.Second)
			return nil
		}
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if next := <-got; next.err != nil {
			t.Error(next.err)
		}
	})
}

// A head whose acquire is under way might be granted the lock twice.
func TestNoPassToAHeadThatIsAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newHooked(t)
		first := mustTake(t, c)
		d.afterAcquire = func(context.Context, driver.AcquireRequest) {
			d.afterAcquire = nil
			if err := first.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if next := <-waitingFor(t.Context(), c, time.Hour); next.err != nil || d.passes.Load() != 0 {
			t.Errorf("%d passes, want none, and %v", d.passes.Load(), next.err)
		}
	})
}

// A driver that cannot pass a lock on is released, and the local waiter asks at once.
func TestWithoutAPasserTheWaiterAsksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, struct {
			driver.Driver
			driver.Waiter
		}{Driver: memlock.New(&memlock.Options{Clock: clock.Monotonic()}), Waiter: memlock.New(nil)}, &lock.Options{Clock: clock.Monotonic()})
		first := mustTake(t, c)
		got := waitingFor(t.Context(), c, time.Hour)
		pause(t, time.Second)
		start := time.Now()
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if next := <-got; next.err != nil || time.Since(start) != 0 {
			t.Errorf("the waiter got %v after %s", next.err, time.Since(start))
		}
	})
}
