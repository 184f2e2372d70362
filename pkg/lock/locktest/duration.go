// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

var durationTests = []test{
	{"V1 V9 a TTL that the store cannot keep is refused and nobody gets the lock", testRefusedTTL},
	{"V12 V13 a TTL with a fraction is rounded up", testRoundedTTL},
	{"TTL 0 is the default", testDefaultTTL},
}

const hundredYears = 100 * 365 * 24 * time.Hour

func testRefusedTTL(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	for _, ttl := range []time.Duration{-5 * time.Second, -1, 1, 500 * time.Microsecond, 999 * time.Microsecond, lock.MinTTL - 1, time.Hour + 1, hundredYears} {
		for _, c := range []*lock.Client{a, b} {
			_, err := c.TryAcquire(s.ctx, "order:1", ttl, 0)
			wantError(t, err, lock.ErrInvalid)
		}
	}
	holding, err := a.Inspect(s.ctx, "order:1")
	if err != nil {
		t.Fatal(err)
	}
	if holding.Held {
		t.Errorf("a refused acquire left a record: %+v", holding)
	}
}

func testRoundedTTL(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	for _, ttl := range []time.Duration{900 * time.Millisecond, 1900 * time.Millisecond, 2*time.Second + 1, 2*time.Second + 300*time.Microsecond} {
		h := mustTry(t, s.ctx, a, "order:1", ttl, 0)
		if h.TTL() < ttl || h.TTL() >= ttl+max(s.limits.Granularity, s.limits.MinTTL) {
			t.Errorf("TTL %s was kept as %s", ttl, h.TTL())
		}
		mustBeHeld(t, s.ctx, b, "order:1")
		mustRelease(t, s.ctx, h)
	}
}

func testDefaultTTL(t *testing.T, s *suite) {
	c := s.client(t, &lock.Options{DefaultTTL: 7 * time.Second})
	h := mustTry(t, s.ctx, c, "order:1", 0, 0)
	if h.TTL() != 7*time.Second {
		t.Errorf("TTL is %s, want the default of 7s", h.TTL())
	}
	mustRelease(t, s.ctx, h)
}
