// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

// client is a process of its own, as far as the database can tell.
func client(t *testing.T, url string, options *pglock.Options) *lock.Client {
	t.Helper()
	d := open(t, url, options)
	c, err := lock.New(d, prefix, &lock.Options{ReleaseTimeout: time.Second, PollInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = c.Close(ctx)
		_ = d.Close()
	})
	return c
}

func mustTry(t *testing.T, c *lock.Client, ttl, wait time.Duration) *lock.Handle {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	h, err := c.TryAcquire(ctx, "order:1", ttl, wait)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("%s did not happen within %s", what, patience)
	}
}

// advisory counts the session-level advisory locks of the database: those that are held, or those that are waited for.
func advisory(t *testing.T, admin *pgx.Conn, granted bool) (n int) {
	t.Helper()
	err := admin.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks
		WHERE locktype = 'advisory' AND objsubid = 1 AND granted = $1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, granted).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// terminateHolder ends the sessions that have an advisory lock, as an administrator would.
func terminateHolder(t *testing.T, admin *pgx.Conn) {
	t.Helper()
	tag, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%d sessions ended, %v", tag.RowsAffected(), err)
	}
}

// waiting starts an acquire, and returns when it waits in the database.
func waiting(t *testing.T, admin *pgx.Conn, c *lock.Client) <-chan result {
	t.Helper()
	got := make(chan result, 1)
	go func() {
		h, err := c.Acquire(t.Context(), "order:1", longTTL, patience)
		got <- result{h, err}
	}()
	eventually(t, "the wait in the database", func() bool { return advisory(t, admin, false) == 1 })
	return got
}

type result struct {
	h   *lock.Handle
	err error
}

func (r result) release(t *testing.T) {
	t.Helper()
	if r.err != nil {
		t.Fatal(r.err)
	}
	if err := r.h.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFrozenHolder(t *testing.T) {
	url := install(t, server)
	d := open(t, url, nil)
	locktest.FrozenHolder(t, d, prefix, url)
}

// The network to the holder swallows everything in both directions, and breaks no connection. Its function is told before another is granted the key.
func TestDoInABlackHole(t *testing.T) {
	url := install(t, server)
	proxy := faultproxy.New(t, server.Addr())
	cut, other := client(t, pgtest.At(t, url, proxy.Addr()), nil), client(t, url, nil)
	err := cut.Do(t.Context(), "order:1", func(ctx context.Context, h *lock.Handle) error {
		proxy.BlackHole()
		next := mustTry(t, other, longTTL, patience)
		if !errors.Is(context.Cause(ctx), lock.ErrLost) {
			t.Errorf("another holds the key, and the function was told %v", context.Cause(ctx))
		}
		if !h.Token().Less(next.Token()) {
			t.Errorf("token %s of the next holder is not greater than %s", next.Token(), h.Token())
		}
		proxy.Heal()
		return next.Release(t.Context())
	}, &lock.DoOptions{TTL: 2 * time.Second})
	if !errors.Is(err, lock.ErrLost) {
		t.Errorf("error is %v, want that the lock was lost", err)
	}
}

// An administrator ends the holder's session: the holder is told at once, long before its TTL, and nobody gets the lock before the holder has
// given it up or the TTL is over.
func TestATerminatedSessionIsALossAtOnce(t *testing.T) {
	for name, tc := range map[string]struct{ waited bool }{"held at once": {false}, "held after a wait": {true}} {
		t.Run(name, func(t *testing.T) {
			url := install(t, server)
			admin := connect(t, url)
			a, b := client(t, url, nil), client(t, url, nil)
			h := mustTry(t, b, longTTL, 0)
			if tc.waited {
				got := waiting(t, admin, a)
				if err := h.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				r := <-got
				if r.err != nil {
					t.Fatal(r.err)
				}
				h = r.h
			}
			other := client(t, url, nil)
			terminateHolder(t, admin)
			await(t, "the loss", h.Context().Done())
			cause := context.Cause(h.Context())
			if ended, ok := errors.AsType[*pglock.SessionEndedError](cause); !ok || !errors.Is(cause, lock.ErrLost) {
				t.Fatalf("cause is %v (%v), want a loss by the end of the session", cause, ended)
			}
			if _, err := other.TryAcquire(t.Context(), "order:1", longTTL, 0); !errors.Is(err, lock.ErrHeld) {
				t.Fatalf("the lock of a holder that may not know of its loss: %v, want held", err)
			}
			if err := h.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("release: %v", err)
			}
			next := mustTry(t, other, longTTL, 0)
			if !h.Token().Less(next.Token()) {
				t.Errorf("token %s is not greater than %s", next.Token(), h.Token())
			}
		})
	}
}

// Without anybody who gives it up, the lock of a terminated session is free after its TTL.
func TestALockDelayFollowsATerminatedSession(t *testing.T) {
	url := install(t, server)
	admin := connect(t, url)
	a, b := client(t, url, nil), client(t, url, nil)
	h := mustTry(t, a, 2*time.Second, 0)
	got := waiting(t, admin, b)
	var expires time.Time
	if err := admin.QueryRow(t.Context(), "SELECT expires_at FROM lockstead.locks").Scan(&expires); err != nil {
		t.Fatal(err)
	}
	terminateHolder(t, admin)
	await(t, "the loss", h.Context().Done())
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	var since time.Time
	if err := admin.QueryRow(t.Context(), "SELECT since FROM lockstead.locks").Scan(&since); err != nil || since.Before(expires) {
		t.Errorf("the next holder has the lock since %s, the row of the first one ran until %s (%v)", since, expires, err)
	}
	r.release(t)
}

// A connection that breaks is no loss: the row keeps the lock, and the driver takes its advisory lock back, so that others can wait for it again.
func TestABrokenConnectionIsNoLoss(t *testing.T) {
	url := install(t, server)
	admin := connect(t, url)
	proxy := faultproxy.New(t, server.Addr())
	a, b := client(t, pgtest.At(t, url, proxy.Addr()), nil), client(t, url, nil)
	h := mustTry(t, a, longTTL, 0)
	got := waiting(t, admin, b)
	proxy.Cut()
	eventually(t, "the waiter behind the holder again", func() bool {
		return advisory(t, admin, true) == 1 && advisory(t, admin, false) == 1 && sessions(t, admin) == 3
	})
	if !h.Valid() {
		t.Fatalf("the lock was lost: %v", h.Err())
	}
	if len(got) > 0 {
		t.Fatalf("the waiter got %+v while the lock was held", <-got)
	}
	if err := h.Renew(t.Context(), 0); err != nil {
		t.Errorf("renewal after the break: %v", err)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Errorf("release after the break: %v", err)
	}
	(<-got).release(t)
}

// The row goes while the connection is broken: the driver finds that when it is back, and tells the holder without being asked.
func TestALossDuringABreakIsToldWhenTheServerIsBack(t *testing.T) {
	url := install(t, server)
	admin := connect(t, url)
	proxy := faultproxy.New(t, server.Addr())
	a := client(t, pgtest.At(t, url, proxy.Addr()), nil)
	h := mustTry(t, a, longTTL, 0)
	proxy.Refuse()
	if _, err := admin.Exec(t.Context(), "DELETE FROM lockstead.locks"); err != nil {
		t.Fatal(err)
	}
	if !h.Valid() {
		t.Fatal("the handle ended with the connection")
	}
	proxy.Heal()
	await(t, "the loss", h.Context().Done())
	if !errors.Is(context.Cause(h.Context()), lock.ErrLost) {
		t.Errorf("cause is %v", context.Cause(h.Context()))
	}
}

// The database restarts in the middle of a wait, by a crash and in good order. The waiter rides it out, and gets the lock when the holder gives it up.
func TestARestartInTheMiddleOfAWait(t *testing.T) {
	for name, end := range map[string]func(*pgtest.Server, testing.TB){"crash": (*pgtest.Server).Kill, "in good order": (*pgtest.Server).Stop} {
		t.Run(name, func(t *testing.T) {
			own := pgtest.Start(t, nil)
			url := install(t, own)
			admin := connect(t, url)
			a, b := client(t, url, nil), client(t, url, nil)
			h := mustTry(t, a, longTTL, 0)
			got := waiting(t, admin, b)
			end(own, t)
			if len(got) > 0 {
				t.Fatalf("the wait ended with the server: %+v", <-got)
			}
			own.Run(t)
			other := client(t, url, nil)
			if _, err := other.TryAcquire(t.Context(), "order:1", longTTL, 0); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("after the restart the lock is not held: %v", err)
			}
			// In good order the server says that an administrator ended the session, and the holder is told.
			if err := h.Release(t.Context()); err != nil && !errors.Is(err, lock.ErrLost) {
				t.Errorf("release after the restart: %v", err)
			}
			r := <-got
			if r.err == nil && !h.Token().Less(r.h.Token()) {
				t.Errorf("token %s is not greater than %s", r.h.Token(), h.Token())
			}
			r.release(t)
		})
	}
}

// A standby grants nothing. Promoted, it may lack the last locks: nothing is granted until the longest TTL has passed, tokens grow, and those whose rows
// came through hold on.
func TestAPromotedStandbyWaitsAndRaisesTheEpoch(t *testing.T) {
	own := pgtest.Start(t, nil)
	url := install(t, own)
	if _, err := connect(t, url).Exec(t.Context(), "UPDATE lockstead.epoch SET max_ttl = '5 seconds'"); err != nil {
		t.Fatal(err)
	}
	d := open(t, url, nil)
	t.Cleanup(func() { _ = d.Close() })
	before, kept := request("order:1"), request("order:2")
	before.TTL, kept.TTL = 5*time.Second, 5*time.Second
	first := mustAcquire(t, d, before)
	mustAcquire(t, d, kept)
	own.Kill(t)
	own.RunAsStandby(t)
	_ = refused(t, url, pglock.ReasonReadOnly, nil)
	_, err := d.Acquire(t.Context(), before)
	if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) {
		t.Errorf("acquire on a standby: %v", err)
	}
	admin := connect(t, url)
	if _, err := admin.Exec(t.Context(), "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), "DELETE FROM lockstead.locks WHERE name = 'order:1'"); err != nil {
		t.Fatal(err)
	}
	// The replica lacks the first lock.
	next := request("order:1")
	next.TTL = 5 * time.Second
	eventually(t, "a session", func() bool { _, err = d.Acquire(t.Context(), next); return !errors.Is(err, driver.ErrUnknown) })
	wantFault(t, err, driver.ErrUnavailable, pglock.ReasonNotArmed)
	if _, err := d.Renew(t.Context(), driver.RenewRequest{Key: kept.Key, ID: kept.ID, TTL: 5 * time.Second}); err != nil {
		t.Errorf("renewal by a holder whose row came through: %v", err)
	}
	var grant driver.Grant
	eventually(t, "a grant after the wait", func() bool { grant, err = d.Acquire(t.Context(), next); return err == nil })
	if !first.Token.Less(grant.Token) || grant.Token.Epoch == first.Token.Epoch {
		t.Errorf("token %s after the promotion, %s before: want a greater epoch", grant.Token, first.Token)
	}
}
