// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

var clientTests = []test{
	{"a changed backend ends handles and waiters", testFail},
	{"a closed client refuses calls and says what is still held", testClose},
}

func testFail(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	other := mustTry(t, s.ctx, b, "order:2", longTTL, 0)
	waiter := make(chan error, 1)
	go func() {
		_, err := a.Acquire(s.ctx, "order:2", longTTL, time.Hour)
		waiter <- err
	}()
	a.Fail(lock.ErrBackendChanged)
	wantLost(t, h, lock.LossBackendChanged)
	wantError(t, context.Cause(h.Context()), lock.ErrBackendChanged)
	wantError(t, <-waiter, lock.ErrBackendChanged)
	_, err := a.TryAcquire(s.ctx, "order:3", longTTL, 0)
	wantError(t, err, lock.ErrBackendChanged)
	wantError(t, h.Release(s.ctx), lock.ErrLost)
	mustRelease(t, s.ctx, other)
	mustRelease(t, s.ctx, mustTry(t, s.ctx, b, "order:1", longTTL, 0))
}

func testClose(t *testing.T, s *suite) {
	c := s.client(t, nil)
	h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
	if err := c.Close(s.ctx); err == nil {
		t.Errorf("close with a held handle said nothing")
	}
	if !h.Valid() {
		t.Errorf("close ended a held handle: %v", h.Err())
	}
	_, err := c.TryAcquire(s.ctx, "order:2", longTTL, 0)
	wantError(t, err, lock.ErrClosed)
	mustRelease(t, s.ctx, h)
	if err := c.Close(s.ctx); err != nil {
		t.Errorf("second close: %v", err)
	}
}
