// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"sync"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

var releaseTests = []test{
	{"only the holder's acquisition id releases", testOwnerScopedRelease},
	{"a late release leaves the next holder alone and is reported", testLateRelease},
	{"release is idempotent", testReleaseIdempotent},
	{"a retried release does not free a newer acquisition of the same process", testRetriedRelease},
	{"the handle is over before the store is told", testReleaseOrder},
	{"a release that meets a renewal leaves nothing behind", testReleaseDuringRenewal},
	{"a record taken away by hand is reported on release", testReleaseOfRemoved},
}

func testOwnerScopedRelease(t *testing.T, s *suite) {
	c := s.client(t, nil)
	d := s.NewDriver(t)
	defer closeDriver(t, d)
	h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
	wantError(t, d.Release(s.ctx, driver.ReleaseRequest{Key: s.key("order:1"), ID: randomID()}), driver.ErrNotHolder)
	mustBeHeld(t, s.ctx, c, "order:1")
	wantError(t, d.Release(s.ctx, driver.ReleaseRequest{Key: s.key("never:held"), ID: randomID()}), driver.ErrNotHolder)
	mustRelease(t, s.ctx, h)
}

func testLateRelease(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", s.short(), 0)
	next := mustTry(t, s.ctx, b, "order:1", longTTL, patience)
	wantError(t, h.Release(s.ctx), lock.ErrLost)
	if !next.Valid() {
		t.Errorf("a late release ended the next holder's handle: %v", next.Err())
	}
	mustBeHeld(t, s.ctx, a, "order:1")
	mustRelease(t, s.ctx, next)
}

func testReleaseIdempotent(t *testing.T, s *suite) {
	c := s.client(t, nil)
	h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			if err := h.Release(s.ctx); err != nil {
				t.Errorf("release: %v", err)
			}
		})
	}
	work.Wait()
	if h.Valid() {
		t.Errorf("the handle is valid after its release")
	}
	wantError(t, h.Err(), lock.ErrReleased)
}

func testRetriedRelease(t *testing.T, s *suite) {
	c := s.client(t, nil)
	d := s.NewDriver(t)
	defer closeDriver(t, d)
	old := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
	mustRelease(t, s.ctx, old)
	h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
	wantError(t, d.Release(s.ctx, driver.ReleaseRequest{Key: s.key("order:1"), ID: old.ID()}), driver.ErrNotHolder)
	mustBeHeld(t, s.ctx, c, "order:1")
	mustRelease(t, s.ctx, h)
}

// testReleaseOrder holds the answer of the release back: the handle must be over meanwhile.
func testReleaseOrder(t *testing.T, s *suite) {
	d, fault := s.NewFaulty(t)
	c := s.clientOn(t, d, nil)
	h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
	fault.HoldResponses()
	defer fault.Heal()
	released := make(chan struct{})
	go func() {
		defer close(released)
		_ = h.Release(s.ctx)
	}()
	await(t, "the end of the handle's context", h.Context().Done())
	if h.Valid() {
		t.Errorf("the handle is valid while its release is under way")
	}
	wantError(t, context.Cause(h.Context()), lock.ErrReleased)
	fault.Heal()
	await(t, "the release", released)
	mustRelease(t, s.ctx, mustTry(t, s.ctx, s.client(t, nil), "order:1", longTTL, patience))
}

// testReleaseDuringRenewal releases while renewals are being sent: none of them may bring the record back.
func testReleaseDuringRenewal(t *testing.T, s *suite) {
	c := s.client(t, nil)
	for range 20 {
		h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
		renewed, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			first := sync.OnceFunc(func() { close(renewed) })
			for h.Renew(s.ctx, 0) == nil {
				first()
			}
		}()
		await(t, "a renewal", renewed)
		mustRelease(t, s.ctx, h)
		await(t, "the end of the renewals", over)
		holding, err := c.Inspect(s.ctx, "order:1")
		if err != nil {
			t.Fatal(err)
		}
		if holding.Held {
			t.Fatalf("a renewal brought the released lock back: %+v", holding)
		}
	}
}

func testReleaseOfRemoved(t *testing.T, s *suite) {
	c := s.client(t, nil)
	h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
	s.Remove(t, s.key("order:1"))
	wantError(t, h.Release(s.ctx), lock.ErrLost)
}
