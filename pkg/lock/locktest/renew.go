// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock"
)

var renewTests = []test{
	{"a renewed lock outlives its first TTL", testRenewExtends},
	{"a renewal keeps the token", testRenewKeepsToken},
	{"a renewal never re-creates a record that is gone", testRenewNeverCreates},
	{"a renewal never takes the next holder's lock", testRenewAfterTakeover},
	{"V3 V5 a renewal for less than the minimum is refused and harms nothing", testRenewTooShort},
	{"an ambiguous renewal does not extend and may be tried again", testRenewAmbiguous},
	{"do renews while its function runs", testDoRenews},
	{"do releases when its function panics", testDoPanics},
}

func testRenewExtends(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", s.short(), 0)
	if err := h.Renew(s.ctx, longTTL); err != nil {
		t.Fatalf("renew: %v", err)
	}
	if left := h.Remaining(); left <= s.short() {
		t.Errorf("%s remain after a renewal for %s", left, longTTL)
	}
	_, err := b.TryAcquire(s.ctx, "order:1", longTTL, 2*s.short())
	wantError(t, err, lock.ErrHeld)
	if !h.Valid() {
		t.Fatalf("the renewed handle ended: %v", h.Err())
	}
	mustRelease(t, s.ctx, h)
}

func testRenewKeepsToken(t *testing.T, s *suite) {
	c := s.client(t, nil)
	h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
	before := h.Token()
	for range 3 {
		if err := h.Renew(s.ctx, 0); err != nil {
			t.Fatalf("renew: %v", err)
		}
	}
	if h.Token() != before {
		t.Errorf("token is %s after renewals, want %s", h.Token(), before)
	}
	holding, err := c.Inspect(s.ctx, "order:1")
	if err != nil {
		t.Fatal(err)
	}
	if holding.Token != before || holding.ID != h.ID() {
		t.Errorf("the store says token %s id %s, want %s and %s", holding.Token, holding.ID, before, h.ID())
	}
	mustRelease(t, s.ctx, h)
}

func testRenewNeverCreates(t *testing.T, s *suite) {
	c := s.client(t, nil)
	h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
	s.Remove(t, s.key("order:1"))
	wantError(t, h.Renew(s.ctx, longTTL), lock.ErrLost)
	wantLost(t, h, lock.LossNotHolder, lock.LossStoreChanged)
	holding, err := c.Inspect(s.ctx, "order:1")
	if err != nil {
		t.Fatal(err)
	}
	if holding.Held {
		t.Errorf("the renewal made a record: %+v", holding)
	}
}

func testRenewAfterTakeover(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	s.Remove(t, s.key("order:1"))
	next := mustTry(t, s.ctx, b, "order:1", longTTL, patience)
	wantError(t, h.Renew(s.ctx, longTTL), lock.ErrLost)
	wantLost(t, h, lock.LossNotHolder, lock.LossStoreChanged)
	if err := next.Renew(s.ctx, longTTL); err != nil {
		t.Errorf("renewal by the next holder: %v", err)
	}
	mustRelease(t, s.ctx, next)
}

func testRenewTooShort(t *testing.T, s *suite) {
	c := s.client(t, nil)
	h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
	wantError(t, h.Renew(s.ctx, 1), lock.ErrInvalid)
	wantError(t, h.Renew(s.ctx, -1), lock.ErrInvalid)
	wantError(t, h.Renew(s.ctx, hundredYears), lock.ErrInvalid)
	if !h.Valid() {
		t.Fatalf("a refused renewal ended the handle: %v", h.Err())
	}
	mustBeHeld(t, s.ctx, c, "order:1")
	mustRelease(t, s.ctx, h)
}

func testRenewAmbiguous(t *testing.T, s *suite) {
	d, fault := s.NewFaulty(t)
	c := s.clientOn(t, d, nil)
	h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
	before := h.Remaining()
	fault.DropResponses()
	err := h.Renew(s.ctx, longTTL)
	if !errors.Is(err, lock.ErrUnknown) && !errors.Is(err, lock.ErrUnavailable) {
		t.Fatalf("renewal whose answer was lost: %v", err)
	}
	if h.Remaining() > before {
		t.Errorf("an ambiguous renewal extended the handle")
	}
	if !h.Valid() {
		t.Fatalf("an ambiguous renewal ended the handle: %v", h.Err())
	}
	fault.Heal()
	if err := retryAmbiguous(s.ctx, func() error { return h.Renew(s.ctx, longTTL) }); err != nil {
		t.Fatalf("renewal after the fault: %v", err)
	}
	mustRelease(t, s.ctx, h)
}

// retryAmbiguous repeats call while it ends ambiguously: after a fault a pool may still have connections that are dead.
func retryAmbiguous(ctx context.Context, call func() error) error {
	for {
		err := call()
		if ctx.Err() != nil || (!errors.Is(err, lock.ErrUnknown) && !errors.Is(err, lock.ErrUnavailable)) {
			return err
		}
	}
}

func testDoRenews(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	err := a.Do(s.ctx, "order:1", func(ctx context.Context, h *lock.Handle) error {
		_, err := b.TryAcquire(ctx, "order:1", longTTL, 2*s.short())
		wantError(t, err, lock.ErrHeld)
		if !h.Valid() {
			t.Errorf("the handle ended while its function ran: %v", h.Err())
		}
		return nil
	}, &lock.DoOptions{TTL: s.short()})
	if err != nil {
		t.Fatalf("do: %v", err)
	}
	mustRelease(t, s.ctx, mustTry(t, s.ctx, b, "order:1", longTTL, 0))
}

func testDoPanics(t *testing.T, s *suite) {
	c := s.client(t, nil)
	func() {
		defer func() {
			if recover() == nil {
				t.Errorf("the panic did not come through")
			}
		}()
		_ = c.Do(s.ctx, "order:1", func(context.Context, *lock.Handle) error { panic("work failed") }, nil)
	}()
	mustRelease(t, s.ctx, mustTry(t, s.ctx, c, "order:1", longTTL, 0))
}
