// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

var expiryTests = []test{
	{"a holder that vanished is followed after its TTL", testExpiry},
	{"the handle ends before the key is granted again", testLossBeforeRegrant},
	{"V8 the context ends by itself when the store cannot be reached", testLossWithoutStore},
	{"V8 do tells its function before another is granted the key", testDoWithoutStore},
	{"a context of the wait that ends does not end the hold", testWaitContextIsNotHoldContext},
}

// whole rounds a TTL up to what the store keeps.
func (s *suite) whole(ttl time.Duration) time.Duration {
	if over := ttl % s.limits.Granularity; over != 0 {
		ttl += s.limits.Granularity - over
	}
	return ttl
}

func testExpiry(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", s.short(), 0)
	next := mustTry(t, s.ctx, b, "order:1", longTTL, patience)
	wantLost(t, h, lock.LossDeadline, lock.LossStoreChanged)
	if !h.Token().Less(next.Token()) {
		t.Errorf("token %s after expiry is not greater than %s", next.Token(), h.Token())
	}
	mustRelease(t, s.ctx, next)
}

func testLossBeforeRegrant(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	for range 3 {
		h := mustTry(t, s.ctx, a, "order:1", s.short(), 0)
		next := mustTry(t, s.ctx, b, "order:1", longTTL, patience)
		// Valid is called after the grant returned, so it also covers a timer that is late; the context has no such excuse but the
		// scheduler, for which the guard was taken off.
		if h.Context().Err() == nil {
			t.Errorf("the context of the first holder was alive when the second one was granted the key")
		}
		if h.Valid() {
			t.Errorf("two valid handles of one key")
		}
		mustRelease(t, s.ctx, next)
	}
}

func testLossWithoutStore(t *testing.T, s *suite) {
	d, fault := s.NewFaulty(t)
	a := s.clientOn(t, d, &lock.Options{ReleaseTimeout: time.Second})
	b := s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", s.short(), 0)
	fault.HoldResponses()
	defer fault.Heal()
	go func() {
		// A renewal whose answer never comes must not keep the handle alive.
		_ = h.Renew(s.ctx, 0)
	}()
	await(t, "the end of the handle's context", h.Context().Done())
	wantLost(t, h, lock.LossDeadline)
	fault.Heal()
	mustRelease(t, s.ctx, mustTry(t, s.ctx, b, "order:1", longTTL, patience))
}

// testDoWithoutStore cuts a holder off from the store alone, while its lock is being renewed. Another replica is granted the key by expiry, and
// by then the function must have been told, whatever answers are still missing.
func testDoWithoutStore(t *testing.T, s *suite) {
	d, fault := s.NewFaulty(t)
	a := s.clientOn(t, d, &lock.Options{ReleaseTimeout: time.Second})
	b := s.client(t, nil)
	err := a.Do(s.ctx, "order:1", func(ctx context.Context, h *lock.Handle) error {
		fault.HoldResponses()
		next, err := b.TryAcquire(s.ctx, "order:1", longTTL, patience)
		if err != nil {
			t.Errorf("the key did not become free: %v", err)
			return nil
		}
		if !errors.Is(context.Cause(ctx), lock.ErrLost) {
			t.Errorf("another holds the key, and the function was told %v", context.Cause(ctx))
		}
		if !h.Token().Less(next.Token()) {
			t.Errorf("token %s of the next holder is not greater than %s", next.Token(), h.Token())
		}
		fault.Heal()
		return next.Release(s.ctx)
	}, &lock.DoOptions{TTL: s.short()})
	fault.Heal()
	wantError(t, err, lock.ErrLost)
}

func testWaitContextIsNotHoldContext(t *testing.T, s *suite) {
	c := s.client(t, nil)
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(s.ctx, key{}, "value"))
	h := mustTry(t, ctx, c, "order:1", longTTL, 0)
	cancel()
	if !h.Valid() || h.Context().Err() != nil {
		t.Fatalf("the hold ended with the context of the acquire: %v", h.Err())
	}
	if h.Context().Value(key{}) != "value" {
		t.Errorf("the handle's context lost the values of the acquire's context")
	}
	if err := h.Release(ctx); err != nil {
		t.Fatalf("release on a cancelled context: %v", err)
	}
	if cause := context.Cause(h.Context()); !errors.Is(cause, lock.ErrReleased) {
		t.Errorf("cause after the release is %v, want ErrReleased", cause)
	}
	mustRelease(t, s.ctx, mustTry(t, s.ctx, s.client(t, nil), "order:1", longTTL, 0))
}
