// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
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

// batching is a hooked store that renews in batches, and tells the sizes of those that it was sent. A batch with one of the keys that hang is
// never answered.
type batching struct {
	*hooked
	hangs func(key string) bool

	mu    sync.Mutex
	sizes []int
}

func (b *batching) RenewBatch(ctx context.Context, reqs []driver.RenewRequest) []driver.RenewOutcome {
	b.mu.Lock()
	b.sizes = append(b.sizes, len(reqs))
	b.mu.Unlock()
	outcomes := make([]driver.RenewOutcome, len(reqs))
	for _, req := range reqs {
		if b.hangs != nil && b.hangs(req.Key.Name) {
			<-ctx.Done()
			for i := range outcomes {
				outcomes[i].Err = &driver.StoreError{Outcome: driver.ErrUnknown, Op: "renew", Reason: "timeout", Err: ctx.Err()}
			}
			return outcomes
		}
	}
	for i, req := range reqs {
		outcomes[i].Renewal, outcomes[i].Err = b.Renew(ctx, req)
	}
	return outcomes
}

func (b *batching) batches() (n, renewals int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, size := range b.sizes {
		renewals += size
	}
	return len(b.sizes), renewals
}

func newBatching(t *testing.T) (*batching, *lock.Client) {
	t.Helper()
	c := clock.Monotonic()
	d := &batching{hooked: &hooked{Driver: memlock.New(&memlock.Options{Clock: c})}}
	return d, newClient(t, d, &lock.Options{Clock: c})
}

// hold runs a function under a lock until the test's time for it is over, and reports how the lock ended.
func hold(t *testing.T, work *sync.WaitGroup, c *lock.Client, key string, ttl, d time.Duration) {
	t.Helper()
	work.Go(func() {
		err := c.Do(t.Context(), key, func(ctx context.Context, _ *lock.Handle) error {
			timer := time.NewTimer(d)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			return nil
		}, &lock.DoOptions{TTL: ttl})
		if err != nil {
			t.Errorf("lock %q: %v", key, err)
		}
	})
}

func TestRenewalsThatFallDueTogetherAreOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newBatching(t)
		var work sync.WaitGroup
		const locks, rounds = 300, 20
		for i := range locks {
			hold(t, &work, c, fmt.Sprint("k", i), 30*time.Second, rounds*10*time.Second)
		}
		work.Wait()
		batches, renewals := d.batches()
		if renewals < locks*(rounds-4) || renewals > locks*(rounds+4) {
			t.Errorf("%d renewals of %d locks in %d thirds of their TTL", renewals, locks, rounds)
		}
		if batches*20 > renewals {
			t.Errorf("%d batches for %d renewals", batches, renewals)
		}
		for _, size := range d.sizes {
			if size > 128 {
				t.Errorf("a batch of %d", size)
			}
		}
	})
}

// The renewals of a key may hang, alone or in one batch with others. The others keep their locks.
func TestAHangingRenewalCostsNobodyElseTheLock(t *testing.T) {
	for name, tc := range map[string]struct {
		batches bool
		hanging int
	}{
		"in a batch":                    {true, 1},
		"one by one":                    {false, 1},
		"more than are sent at a time":  {false, 100},
		"more than are retried at once": {true, 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, c := newBatching(t)
				slow := func(key string) bool { return key[0] == 's' }
				if tc.batches {
					b.hangs = slow
				} else {
					b.beforeRenew = func(ctx context.Context, req driver.RenewRequest) error {
						if !slow(req.Key.Name) {
							return nil
						}
						<-ctx.Done()
						return &driver.StoreError{Outcome: driver.ErrUnknown, Op: "renew", Reason: "timeout", Err: ctx.Err()}
					}
					c = newClient(t, b.hooked, &lock.Options{Clock: clock.Monotonic()})
				}
				var work sync.WaitGroup
				for i := range 50 {
					hold(t, &work, c, fmt.Sprint("k", i), 3*time.Second, time.Minute)
				}
				for i := range tc.hanging {
					work.Go(func() {
						err := c.Do(t.Context(), fmt.Sprint("slow", i), func(ctx context.Context, _ *lock.Handle) error {
							<-ctx.Done()
							return nil
						}, &lock.DoOptions{TTL: 3 * time.Second})
						if !errors.Is(err, lock.ErrLost) {
							t.Errorf("the lock whose renewals hang: %v", err)
						}
					})
				}
				work.Wait()
			})
		})
	}
}

// A renewal that fails is tried again while the lock is valid, and says nothing about later locks on the key.
func TestRenewalsGoOnAfterSomeFailed(t *testing.T) {
	for name, batches := range map[string]bool{"in batches": true, "one by one": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, c := newBatching(t)
				if !batches {
					c = newClient(t, b.hooked, &lock.Options{Clock: clock.Monotonic()})
				}
				var failures atomic.Int32
				b.beforeRenew = func(context.Context, driver.RenewRequest) error {
					if failures.Add(1) <= 3 {
						return &driver.StoreError{Outcome: driver.ErrUnavailable, Op: "renew", Reason: "dial", Err: errors.New("refused")}
					}
					return nil
				}
				for range 2 {
					var work sync.WaitGroup
					hold(t, &work, c, "k", 3*time.Second, time.Minute)
					work.Wait()
				}
				if failures.Load() < 40 {
					t.Errorf("%d renewals in two minutes of a TTL of 3 s", failures.Load())
				}
			})
		})
	}
}

// A lock that is released does not wait for the answer to its renewal, and nothing of it is left when the client is closed.
func TestAReleaseBreaksTheRenewalOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newBatching(t)
		asked := make(chan struct{}, 1)
		d.hangs = func(string) bool {
			select {
			case asked <- struct{}{}:
			default:
			}
			return true
		}
		var start time.Time
		err := c.Do(t.Context(), "k", func(context.Context, *lock.Handle) error {
			<-asked
			start = time.Now()
			return nil
		}, &lock.DoOptions{TTL: 30 * time.Second})
		if err != nil {
			t.Error(err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("release and close took %s while a renewal was under way", took)
		}
	})
}

// Renewals go on while the client is being closed: the work still runs.
func TestCloseDoesNotEndTheRenewalsOfWorkThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newBatching(t)
		err := c.Do(t.Context(), "k", func(ctx context.Context, h *lock.Handle) error {
			if err := c.Close(ctx); err == nil {
				t.Error("close with a held handle said nothing")
			}
			pause(t, time.Minute)
			return h.Err()
		}, &lock.DoOptions{TTL: 3 * time.Second})
		if err != nil {
			t.Error(err)
		}
	})
}

// The owner may renew a handle of Do at any time, and change its TTL.
func TestTheOwnersRenewalGoesBesideTheScheduledOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newBatching(t)
		d.beforeRenew = func(_ context.Context, req driver.RenewRequest) error {
			if req.TTL == time.Minute {
				pause(t, 2*time.Second) // past the time of a scheduled one
			}
			return nil
		}
		err := c.Do(t.Context(), "k", func(ctx context.Context, h *lock.Handle) error {
			pause(t, 900*time.Millisecond)
			if err := h.Renew(ctx, time.Minute); err != nil {
				t.Errorf("the owner's renewal: %v", err)
			}
			pause(t, time.Hour/2)
			if h.TTL() != time.Minute {
				t.Errorf("the TTL is %s, want the one that the owner asked for", h.TTL())
			}
			return h.Err()
		}, &lock.DoOptions{TTL: 3 * time.Second, MaxHold: time.Hour})
		if err != nil {
			t.Error(err)
		}
	})
}
