// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// passTests are those of the drivers that can pass a lock on, and for all others that they cannot.
func passTests(h Harness) []test {
	if h.NoPass {
		return []test{{"the driver cannot pass a lock on", testNoPass}}
	}
	return []test{
		{"a pass is a new grant to another acquisition", testPass},
		{"a pass by somebody else changes nothing", testPassByAnother},
		{"a pass starts a TTL of its own", testPassTTL},
		{"a pass does not revive what ran out", testPassAfterExpiry},
		{"a pass that cannot be made leaves the holder", testPassRefused},
		{"a pass whose answer is lost leaves one holder that can be released", testPassLostAnswer},
		{"goroutines of a process pass a lock on and other processes get their turn", testPassInTurns},
	}
}

func testNoPass(t *testing.T, s *suite) {
	if _, ok := s.NewDriver(t).(driver.Passer); ok {
		t.Error("the driver is a driver.Passer: take NoPass out of the Harness")
	}
}

func (s *suite) passer(t *testing.T) (driver.Driver, driver.Passer) {
	t.Helper()
	d := s.NewDriver(t)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close of the driver: %v", err)
		}
	})
	return d, asPasser(t, d)
}

func asPasser(t *testing.T, d driver.Driver) driver.Passer {
	t.Helper()
	p, ok := d.(driver.Passer)
	if !ok {
		t.Fatalf("%T is no driver.Passer: say so by NoPass in the Harness", d)
	}
	return p
}

func (s *suite) acquireRequest(owner string, ttl time.Duration) driver.AcquireRequest {
	return driver.AcquireRequest{Key: s.key("order:1"), ID: randomID(), TTL: ttl, Owner: owner, OnLost: func(error) {}}
}

func mustGrant(t *testing.T, grant driver.Grant, err error) driver.Grant {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

func mustHold(t *testing.T, s *suite, d driver.Driver, id string) driver.Holding {
	t.Helper()
	holding, err := d.Inspect(s.ctx, s.key("order:1"))
	if err != nil {
		t.Fatal(err)
	}
	if holding.ID != id {
		t.Fatalf("the store has %+v, want the acquisition %q", holding, id)
	}
	return holding
}

func testPass(t *testing.T, s *suite) {
	d, p := s.passer(t)
	from, to := s.acquireRequest("first", longTTL), s.acquireRequest("second", longTTL/2)
	first, err := d.Acquire(s.ctx, from)
	first = mustGrant(t, first, err)
	second, err := p.Pass(s.ctx, driver.PassRequest{From: from.ID, To: to})
	second = mustGrant(t, second, err)
	if !first.Token.Less(second.Token) || second.TTL < to.TTL {
		t.Errorf("passed on with token %s and TTL %s, want a token above %s and at least %s", second.Token, second.TTL, first.Token, to.TTL)
	}
	holding := mustHold(t, s, d, to.ID)
	if holding.Owner != "second" || holding.Token != second.Token || holding.Remaining > to.TTL {
		t.Errorf("the store has %+v, want owner, token and TTL of the second acquisition", holding)
	}
	_, err = d.Renew(s.ctx, driver.RenewRequest{Key: from.Key, ID: from.ID, TTL: longTTL})
	wantError(t, err, driver.ErrNotHolder)
	wantError(t, d.Release(s.ctx, driver.ReleaseRequest{Key: from.Key, ID: from.ID}), driver.ErrNotHolder)
	mustHold(t, s, d, to.ID)
	if _, err := d.Renew(s.ctx, driver.RenewRequest{Key: to.Key, ID: to.ID, TTL: longTTL}); err != nil {
		t.Errorf("renewal by the second acquisition: %v", err)
	}
	if err := d.Release(s.ctx, driver.ReleaseRequest{Key: to.Key, ID: to.ID}); err != nil {
		t.Errorf("release by the second acquisition: %v", err)
	}
	mustHold(t, s, d, "")
}

func testPassByAnother(t *testing.T, s *suite) {
	d, p := s.passer(t)
	_, err := p.Pass(s.ctx, driver.PassRequest{From: randomID(), To: s.acquireRequest("nobody", longTTL)})
	wantError(t, err, driver.ErrNotHolder)
	mustHold(t, s, d, "")
	holder := s.acquireRequest("holder", longTTL)
	grant, err := d.Acquire(s.ctx, holder)
	mustGrant(t, grant, err)
	for _, from := range []string{randomID(), "", holder.ID[:31]} {
		_, err = p.Pass(s.ctx, driver.PassRequest{From: from, To: s.acquireRequest("nobody", longTTL)})
		wantError(t, err, driver.ErrNotHolder)
	}
	if holding := mustHold(t, s, d, holder.ID); holding.Token != grant.Token || holding.Owner != "holder" {
		t.Errorf("the store has %+v after passes by others", holding)
	}
	if err := d.Release(s.ctx, driver.ReleaseRequest{Key: holder.Key, ID: holder.ID}); err != nil {
		t.Error(err)
	}
}

func testPassTTL(t *testing.T, s *suite) {
	d, p := s.passer(t)
	other := s.client(t, nil)
	brief, long, last := s.acquireRequest("brief", s.short()), s.acquireRequest("long", longTTL), s.acquireRequest("last", s.short())
	grant, err := d.Acquire(s.ctx, brief)
	mustGrant(t, grant, err)
	grant, err = p.Pass(s.ctx, driver.PassRequest{From: brief.ID, To: long})
	mustGrant(t, grant, err)
	_, err = other.TryAcquire(s.ctx, "order:1", longTTL, 2*s.short())
	wantError(t, err, lock.ErrHeld)
	grant, err = p.Pass(s.ctx, driver.PassRequest{From: long.ID, To: last})
	mustGrant(t, grant, err)
	mustRelease(t, s.ctx, mustTry(t, s.ctx, other, "order:1", longTTL, patience))
}

func testPassAfterExpiry(t *testing.T, s *suite) {
	d, p := s.passer(t)
	other := s.client(t, nil)
	brief := s.acquireRequest("brief", s.short())
	grant, err := d.Acquire(s.ctx, brief)
	mustGrant(t, grant, err)
	h := mustTry(t, s.ctx, other, "order:1", longTTL, patience)
	_, err = p.Pass(s.ctx, driver.PassRequest{From: brief.ID, To: s.acquireRequest("late", longTTL)})
	wantError(t, err, driver.ErrNotHolder)
	mustHold(t, s, d, h.ID())
	mustRelease(t, s.ctx, h)
}

func testPassRefused(t *testing.T, s *suite) {
	d, p := s.passer(t)
	holder := s.acquireRequest("holder", longTTL)
	grant, err := d.Acquire(s.ctx, holder)
	mustGrant(t, grant, err)
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err = p.Pass(ended, driver.PassRequest{From: holder.ID, To: s.acquireRequest("too late", longTTL)})
	wantError(t, err, driver.ErrUnavailable)
	wantError(t, err, context.Canceled)
	mustHold(t, s, d, holder.ID)
	if err := d.Release(s.ctx, driver.ReleaseRequest{Key: holder.Key, ID: holder.ID}); err != nil {
		t.Error(err)
	}
}

func testPassLostAnswer(t *testing.T, s *suite) {
	d, fault := s.NewFaulty(t)
	t.Cleanup(func() { _ = d.Close() })
	p := asPasser(t, d)
	from, to := s.acquireRequest("first", longTTL), s.acquireRequest("second", longTTL)
	grant, err := d.Acquire(s.ctx, from)
	mustGrant(t, grant, err)
	defer fault.Heal()
	err = s.hit(t, d, fault, Fault.DropResponses, func() error {
		_, err := p.Pass(s.ctx, driver.PassRequest{From: from.ID, To: to})
		return err
	})
	wantError(t, err, driver.ErrUnknown)
	fault.Heal()
	released := 0
	for _, id := range []string{from.ID, to.ID} {
		err := retryAmbiguous(s.ctx, func() error { return d.Release(s.ctx, driver.ReleaseRequest{Key: from.Key, ID: id}) })
		switch {
		case err == nil:
			released++
		case !errors.Is(err, driver.ErrNotHolder):
			t.Errorf("release after the pass: %v", err)
		}
	}
	if released != 1 {
		t.Errorf("%d of the two acquisitions held the lock, want 1", released)
	}
	mustHold(t, s, d, "")
}

// countedPasses counts the passes that were made.
type countedPasses struct {
	driver.Driver
	passer driver.Passer
	made   *atomic.Int32
}

func (c countedPasses) Pass(ctx context.Context, req driver.PassRequest) (driver.Grant, error) {
	grant, err := c.passer.Pass(ctx, req)
	if err == nil {
		c.made.Add(1)
	}
	return grant, err
}

// testPassInTurns holds the key until all goroutines queue for it, so that there is somebody to pass it to however fast the store is.
func testPassInTurns(t *testing.T, s *suite) {
	const processes, goroutines, rounds = 2, 6, 4
	var made, inside atomic.Int32
	var mu sync.Mutex
	seen := growing{t: t}
	ids := map[string]bool{}
	first := s.client(t, nil)
	h := mustTry(t, s.ctx, first, "order:1", longTTL, 0)
	var work, begun sync.WaitGroup
	begun.Add(processes * goroutines)
	for range processes {
		d := s.NewDriver(t)
		c := s.clientOn(t, countedPasses{d, asPasser(t, d), &made}, nil)
		for range goroutines {
			work.Go(func() {
				begun.Done()
				for range rounds {
					h, err := c.Acquire(s.ctx, "order:1", longTTL, patience)
					if err != nil {
						t.Errorf("left behind: %v", err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d holders at one time", n)
					}
					mu.Lock()
					seen.see(h)
					ids[h.ID()] = true
					mu.Unlock()
					inside.Add(-1)
					if err := h.Release(s.ctx); err != nil {
						t.Errorf("release: %v", err)
					}
				}
			})
		}
	}
	begun.Wait()
	_, err := first.TryAcquire(s.ctx, "order:1", longTTL, 300*time.Millisecond)
	wantError(t, err, lock.ErrHeld)
	mustRelease(t, s.ctx, h)
	work.Wait()
	if len(ids) != processes*goroutines*rounds {
		t.Errorf("%d acquisition ids for %d grants", len(ids), processes*goroutines*rounds)
	}
	if made.Load() == 0 {
		t.Error("no lock was passed on")
	}
	t.Logf("%d of %d grants were passed on", made.Load(), len(ids))
}
