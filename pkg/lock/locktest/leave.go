// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock"
)

var leaveTests = []test{
	{"a key that was left frees itself after its rest", testLeaveShorter},
	{"a key that was left stays locked past the TTL of the work", testLeaveLonger},
	{"a release after leaving does not free the key", testLeaveThenRelease},
	{"leaving after a release locks nothing", testReleaseThenLeave},
	{"leaving a lock that is gone locks nothing", testLeaveAfterRemoval},
	{"leaving does not touch the next holder's lock", testLeaveAfterTakeover},
	{"leaving for a time that cannot be kept is refused and harms nothing", testLeaveRefused},
	{"leaving without an answer ends the handle and frees nothing", testLeaveAmbiguous},
	{"do leaves the key that its function left", testDoLeaves},
}

func mustLeave(t *testing.T, ctx context.Context, h *lock.Handle) {
	t.Helper()
	if err := h.Leave(ctx, longTTL); err != nil {
		t.Fatalf("leave: %v", err)
	}
	if cause := context.Cause(h.Context()); h.Valid() || !errors.Is(cause, lock.ErrReleased) {
		t.Fatalf("after leaving the handle is valid: %t, cause %v; want it released", h.Valid(), cause)
	}
}

func testLeaveShorter(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "job:1", longTTL, 0)
	if err := h.Leave(s.ctx, s.short()); err != nil {
		t.Fatalf("leave: %v", err)
	}
	next := mustTry(t, s.ctx, b, "job:1", longTTL, patience)
	if !h.Token().Less(next.Token()) {
		t.Errorf("token %s after a rest is not greater than %s", next.Token(), h.Token())
	}
	mustRelease(t, s.ctx, next)
}

func testLeaveLonger(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	ctx, cancel := context.WithCancel(s.ctx)
	h := mustTry(t, ctx, a, "job:1", s.short(), 0)
	// Also a caller whose context has ended leaves the key.
	cancel()
	mustLeave(t, ctx, h)
	defer s.Remove(t, s.key("job:1"))
	_, err := b.TryAcquire(s.ctx, "job:1", longTTL, 2*s.short())
	wantError(t, err, lock.ErrHeld)
}

func testLeaveThenRelease(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "job:1", longTTL, 0)
	mustLeave(t, s.ctx, h)
	defer s.Remove(t, s.key("job:1"))
	mustRelease(t, s.ctx, h)
	mustBeHeld(t, s.ctx, a, "job:1")
	mustBeHeld(t, s.ctx, b, "job:1")
	if err := a.Close(s.ctx); err != nil {
		t.Errorf("close after a key was left: %v", err)
	}
}

func testReleaseThenLeave(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "job:1", longTTL, 0)
	mustRelease(t, s.ctx, h)
	if err := h.Leave(s.ctx, longTTL); err != nil {
		t.Errorf("leave after a release: %v", err)
	}
	mustRelease(t, s.ctx, mustTry(t, s.ctx, b, "job:1", longTTL, 0))
}

func testLeaveAfterRemoval(t *testing.T, s *suite) {
	c := s.client(t, nil)
	h := mustTry(t, s.ctx, c, "job:1", longTTL, 0)
	s.Remove(t, s.key("job:1"))
	wantError(t, h.Leave(s.ctx, longTTL), lock.ErrLost)
	holding, err := c.Inspect(s.ctx, "job:1")
	if err != nil {
		t.Fatal(err)
	}
	if holding.Held {
		t.Errorf("leaving made a record: %+v", holding)
	}
}

func testLeaveAfterTakeover(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "job:1", longTTL, 0)
	s.Remove(t, s.key("job:1"))
	next := mustTry(t, s.ctx, b, "job:1", longTTL, patience)
	wantError(t, h.Leave(s.ctx, s.short()), lock.ErrLost)
	if err := next.Renew(s.ctx, longTTL); err != nil {
		t.Errorf("renewal by the next holder: %v", err)
	}
	mustRelease(t, s.ctx, next)
}

func testLeaveRefused(t *testing.T, s *suite) {
	c := s.client(t, nil)
	h := mustTry(t, s.ctx, c, "job:1", longTTL, 0)
	wantError(t, h.Leave(s.ctx, 0), lock.ErrInvalid)
	wantError(t, h.Leave(s.ctx, -1), lock.ErrInvalid)
	wantError(t, h.Leave(s.ctx, lock.MinTTL-1), lock.ErrInvalid)
	wantError(t, h.Leave(s.ctx, c.MaxTTL()+1), lock.ErrInvalid)
	if !h.Valid() {
		t.Fatalf("a refused call ended the handle: %v", h.Err())
	}
	mustRelease(t, s.ctx, h)
	mustRelease(t, s.ctx, mustTry(t, s.ctx, c, "job:1", longTTL, 0))
}

func testLeaveAmbiguous(t *testing.T, s *suite) {
	d, fault := s.NewFaulty(t)
	a, b := s.clientOn(t, d, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "job:1", longTTL, 0)
	defer s.Remove(t, s.key("job:1"))
	fault.DropResponses()
	err := h.Leave(s.ctx, longTTL)
	fault.Heal()
	if !errors.Is(err, lock.ErrUnknown) && !errors.Is(err, lock.ErrUnavailable) {
		t.Fatalf("leave whose answer was lost: %v", err)
	}
	if h.Valid() {
		t.Errorf("the handle is still valid")
	}
	if again := h.Release(s.ctx); again != err { //nolint:errorlint // The very same error.
		t.Errorf("release after it returned %v, want the same as leave: %v", again, err)
	}
	mustBeHeld(t, s.ctx, b, "job:1")
}

func testDoLeaves(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	defer s.Remove(t, s.key("job:1"))
	err := a.Do(s.ctx, "job:1", func(ctx context.Context, h *lock.Handle) error {
		mustLeave(t, ctx, h)
		return nil
	}, nil)
	if err != nil {
		t.Fatalf("do: %v", err)
	}
	mustBeHeld(t, s.ctx, b, "job:1")
}
