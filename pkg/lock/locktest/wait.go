// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

var waitTests = []test{
	{"the notification alone wakes a waiter", testWakeUp},
	{"V6 V7 no waiter of a herd is left behind", testHerd},
	{"a wait that ends without the lock is held", testWaitTimeout},
	{"acquire refuses wait 0 and both refuse a negative wait", testWaitRefused},
	{"a cancelled waiter returns its context's error and holds nothing", testCancelledWaiter},
	{"an acquire that is cancelled for a reason tells both", testCancelledForAReason},
	{"a context that has ended asks nothing", testEndedContext},
	{"a waiter rides out an interruption of the store", testWaitOverInterruption},
}

// testWakeUp sets the poll to an hour and the TTL to minutes, so that nothing but the notification can wake the waiter.
func testWakeUp(t *testing.T, s *suite) {
	options := &lock.Options{PollInterval: time.Hour}
	if s.NoNotification {
		options = nil
	}
	a, b := s.client(t, nil), s.client(t, options)
	for range 3 {
		h := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
		waiting := make(chan struct{})
		type result struct {
			h   *lock.Handle
			err error
		}
		got := make(chan result, 1)
		go func() {
			close(waiting)
			h, err := b.Acquire(s.ctx, "order:1", longTTL, patience)
			got <- result{h, err}
		}()
		<-waiting
		mustRelease(t, s.ctx, h)
		r := <-got
		if r.err != nil {
			t.Fatalf("the waiter was not woken: %v", r.err)
		}
		mustRelease(t, s.ctx, r.h)
	}
}

func testHerd(t *testing.T, s *suite) {
	const processes, goroutines = 4, 5
	holder := s.client(t, nil)
	h := mustTry(t, s.ctx, holder, "order:1", longTTL, 0)
	options := &lock.Options{PollInterval: time.Hour}
	if s.NoNotification {
		options = nil
	}
	var work sync.WaitGroup
	for range processes {
		c := s.client(t, options)
		for range goroutines {
			work.Go(func() {
				h, err := c.Acquire(s.ctx, "order:1", longTTL, patience)
				if err != nil {
					t.Errorf("left behind: %v", err)
					return
				}
				if err := h.Release(s.ctx); err != nil {
					t.Errorf("release: %v", err)
				}
			})
		}
	}
	mustRelease(t, s.ctx, h)
	work.Wait()
}

func testWaitTimeout(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	_, err := b.TryAcquire(s.ctx, "order:1", longTTL, 300*time.Millisecond)
	wantError(t, err, lock.ErrHeld)
	_, err = b.Acquire(s.ctx, "order:1", longTTL, 300*time.Millisecond)
	wantError(t, err, lock.ErrHeld)
	if _, ok := errors.AsType[*lock.WaitTimeoutError](err); !ok {
		t.Errorf("error is a %T, want a *lock.WaitTimeoutError", err)
	}
	mustRelease(t, s.ctx, h)
}

func testWaitRefused(t *testing.T, s *suite) {
	c := s.client(t, nil)
	_, err := c.Acquire(s.ctx, "order:1", longTTL, 0)
	wantError(t, err, lock.ErrInvalid)
	_, err = c.Acquire(s.ctx, "order:1", longTTL, -1)
	wantError(t, err, lock.ErrInvalid)
	_, err = c.TryAcquire(s.ctx, "order:1", longTTL, -1)
	wantError(t, err, lock.ErrInvalid)
}

func testCancelledWaiter(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	ctx, cancel := context.WithTimeout(s.ctx, 300*time.Millisecond)
	defer cancel()
	_, err := b.Acquire(ctx, "order:1", longTTL, time.Hour)
	wantError(t, err, context.DeadlineExceeded)
	if errors.Is(err, lock.ErrHeld) {
		t.Errorf("error %v matches ErrHeld, but the caller's context ended first", err)
	}
	mustRelease(t, s.ctx, h)
	mustRelease(t, s.ctx, mustTry(t, s.ctx, a, "order:1", longTTL, patience))
}

// testCancelledForAReason ends the contexts of the head of the queue, of one behind it, and of a caller that comes too late: whatever the driver answers,
// the caller finds the context's own error and the reason that it gave for it.
func testCancelledForAReason(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	stop := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	late, cancelLate := context.WithTimeoutCause(s.ctx, 300*time.Millisecond, stop)
	defer cancelLate()
	got := make(chan error, 2)
	for range cap(got) {
		go func() {
			_, err := b.Acquire(ctx, "order:1", longTTL, time.Hour)
			got <- err
		}()
	}
	_, err := b.Acquire(late, "order:1", longTTL, time.Hour)
	wantError(t, err, context.DeadlineExceeded)
	wantError(t, err, stop)
	cancel(stop)
	for range cap(got) {
		err := <-got
		wantError(t, err, context.Canceled)
		wantError(t, err, stop)
	}
	_, err = b.TryAcquire(ctx, "order:1", longTTL, 0)
	wantError(t, err, context.Canceled)
	wantError(t, err, stop)
	err = h.Renew(ctx, longTTL)
	wantError(t, err, context.Canceled)
	wantError(t, err, stop)
	mustRelease(t, s.ctx, h)
}

func testEndedContext(t *testing.T, s *suite) {
	c := s.client(t, nil)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	for _, wait := range []time.Duration{0, time.Second} {
		_, err := c.TryAcquire(ctx, "order:1", longTTL, wait)
		wantError(t, err, context.Canceled)
	}
	mustRelease(t, s.ctx, mustTry(t, s.ctx, c, "order:1", longTTL, 0))
}

// refusalTeller closes told when an acquire has found its key held.
type refusalTeller struct {
	driver.Driver
	once sync.Once
	told chan struct{}
}

func (r *refusalTeller) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	grant, err := r.Driver.Acquire(ctx, req)
	if errors.Is(err, driver.ErrHeld) {
		r.once.Do(func() { close(r.told) })
	}
	return grant, err
}

// tellRefusal tells of the first acquire that finds its key held. Of the optional abilities of d, waiting is kept.
func tellRefusal(d driver.Driver) (driver.Driver, <-chan struct{}) {
	r := &refusalTeller{Driver: d, told: make(chan struct{})}
	waiter, ok := d.(driver.Waiter)
	if !ok {
		return r, r.told
	}
	return struct {
		*refusalTeller
		driver.Waiter
	}{r, waiter}, r.told
}

func testWaitOverInterruption(t *testing.T, s *suite) {
	d, fault := s.NewFaulty(t)
	d, refused := tellRefusal(d)
	a, b := s.client(t, nil), s.clientOn(t, d, &lock.Options{AttemptTimeout: time.Second, PollInterval: time.Hour})
	h := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	got := make(chan error, 1)
	go func() {
		h, err := b.Acquire(s.ctx, "order:1", longTTL, patience)
		if err == nil {
			err = h.Release(s.ctx)
		}
		got <- err
	}()
	// A fault at the first attempt is not ridden out.
	await(t, "the first refusal", refused)
	fault.Refuse()
	mustRelease(t, s.ctx, h)
	fault.Heal()
	if err := <-got; err != nil {
		t.Errorf("the waiter did not ride out the interruption: %v", err)
	}
}
