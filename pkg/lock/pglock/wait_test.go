// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
)

// A wait that ends without the lock leaves neither a place in the queue of the database, nor a session.
func TestAWaitThatEndsLeavesNothingInTheDatabase(t *testing.T) {
	url := install(t, server)
	admin := connect(t, url)
	a, b := client(t, url, nil), client(t, url, nil)
	h := mustTry(t, a, longTTL, 0)
	before := sessions(t, admin)
	if _, err := b.TryAcquire(t.Context(), "order:1", longTTL, 300*time.Millisecond); !errors.Is(err, lock.ErrHeld) {
		t.Fatalf("error is %v, want held", err)
	}
	eventually(t, "the end of the wait in the database", func() bool { return advisory(t, admin, false) == 0 && sessions(t, admin) == before })
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
	eventually(t, "the end of the advisory lock", func() bool { return advisory(t, admin, true) == 0 })
}

// The lock becomes free at the moment at which the wait for it ends, over and over: what the database granted at the last moment
// must not stay locked. https://github.com/madelson/DistributedLock/issues/147.
func TestALockGrantedAtTheTimeOutIsNotLeaked(t *testing.T) {
	for name, slice := range map[string]time.Duration{"time-out of the caller": 0, "time-out of the database": 3 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			url := install(t, server)
			admin := connect(t, url)
			a, b := client(t, url, nil), client(t, url, &pglock.Options{WaitSlice: slice})
			granted, held := 0, 0
			for i := range 40 {
				h := mustTry(t, a, longTTL, patience)
				var work sync.WaitGroup
				work.Go(func() {
					got, err := b.TryAcquire(t.Context(), "order:1", longTTL, time.Duration(10+i%20)*time.Millisecond)
					switch {
					case errors.Is(err, lock.ErrHeld):
						held++
					case err != nil:
						t.Error(err)
					default:
						granted++
						if err := got.Release(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
				work.Go(func() {
					if i%2 == 0 {
						eventually(t, "a place in the queue, or none any more", func() bool { return advisory(t, admin, false) == 1 || held+granted > i })
					}
					if err := h.Release(t.Context()); err != nil {
						t.Error(err)
					}
				})
				work.Wait()
			}
			t.Logf("%d granted, %d held", granted, held)
			eventually(t, "the end of all advisory locks", func() bool { return advisory(t, admin, true)+advisory(t, admin, false) == 0 })
			if err := mustTry(t, client(t, url, nil), longTTL, 0).Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// At the limit of sessions further waits poll, and get the lock all the same.
func TestWaitsBeyondTheLimitOfSessionsPoll(t *testing.T) {
	url := install(t, server)
	admin := connect(t, url)
	a, b := client(t, url, nil), client(t, url, &pglock.Options{MaxSessions: 2})
	keys := []string{"order:1", "order:2", "order:3"}
	var handles []*lock.Handle
	for _, key := range keys {
		h, err := a.TryAcquire(t.Context(), key, longTTL, 0)
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, h)
	}
	var work sync.WaitGroup
	for _, key := range keys {
		work.Go(func() {
			h, err := b.Acquire(t.Context(), key, longTTL, patience)
			result{h, err}.release(t)
		})
	}
	eventually(t, "the wait in the database", func() bool { return advisory(t, admin, false) == 1 })
	if n := sessions(t, admin); n > 1+2 {
		t.Errorf("%d sessions, want 1 of the holder and at most 2", n)
	}
	for _, h := range handles {
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	work.Wait()
}

// Somebody else has the advisory lock of a key, by another program or because two keys have one number. It says nothing of who holds the key.
func TestAStrangersAdvisoryLockKeepsNobodyOut(t *testing.T) {
	url := install(t, server)
	admin := connect(t, url)
	if _, err := admin.Exec(t.Context(), "SELECT pg_advisory_lock($1::bigint)", pglock.KeyHash(driver.Key{Prefix: prefix, Name: "order:1"})); err != nil {
		t.Fatal(err)
	}
	a, b := client(t, url, nil), client(t, url, nil)
	h := mustTry(t, a, longTTL, 0)
	got := make(chan result, 1)
	go func() {
		h, err := b.Acquire(t.Context(), "order:1", longTTL, patience)
		got <- result{h, err}
	}()
	eventually(t, "the wait in the database", func() bool { return advisory(t, admin, false) == 1 })
	// The waiter cannot be woken by the advisory lock; the holder knows that it has none, and says that the key is free.
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	(<-got).release(t)
}

// Many processes take and free one key at once: the order of the tokens is that of the grants.
func TestTokensGrowInTheOrderOfTheGrants(t *testing.T) {
	url := install(t, server)
	const processes, rounds = 6, 25
	var mu sync.Mutex
	var last driver.Token
	var work sync.WaitGroup
	for range processes {
		d := open(t, url, nil)
		t.Cleanup(func() { _ = d.Close() })
		work.Go(func() {
			for granted := 0; granted < rounds; {
				req := request("order:1")
				grant, err := d.Acquire(t.Context(), req)
				if errors.Is(err, driver.ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				granted++
				mu.Lock()
				if !last.Less(grant.Token) {
					t.Errorf("token %s was granted after %s", grant.Token, last)
				}
				last = grant.Token
				mu.Unlock()
				if err := d.Release(t.Context(), driver.ReleaseRequest{Key: req.Key, ID: req.ID}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
}
