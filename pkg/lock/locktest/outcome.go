// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

var outcomeTests = []test{
	{"V4 an acquire whose answer is held back is unknown and released by id", testResponseHeld},
	{"V4 an acquire whose answer is lost is unknown and released by id", testResponseLost},
	{"V4 an acquire that is cancelled on its way is released by id", testCancelledOnItsWay},
	{"a time-out of the attempt is not an end of the caller's context", testAttemptTimeout},
	{"a store that is down is a fault and not held", testStoreDown},
	{"a store that comes back is used again", testStoreBack},
}

func testResponseHeld(t *testing.T, s *suite) {
	testLostAnswer(t, s, Fault.HoldResponses)
}

func testResponseLost(t *testing.T, s *suite) {
	testLostAnswer(t, s, Fault.DropResponses)
}

// testLostAnswer takes a key whose answer does not arrive; another replica must get it long before the TTL is over.
func testLostAnswer(t *testing.T, s *suite, disturb func(Fault)) {
	d, fault := s.NewFaulty(t)
	a := s.clientOn(t, d, &lock.Options{AttemptTimeout: 500 * time.Millisecond, ReleaseTimeout: time.Second})
	b := s.client(t, nil)
	defer fault.Heal()
	err := s.hit(t, d, fault, disturb, func() error {
		h, err := a.TryAcquire(s.ctx, "order:1", longTTL, 0)
		if h != nil {
			t.Fatal("an acquire without an answer returned a handle")
		}
		return err
	})
	wantError(t, err, lock.ErrUnknown)
	fault.Heal()
	mustRelease(t, s.ctx, mustTry(t, s.ctx, b, "order:1", longTTL, patience))
}

// hit repeats a request on a driver under a fault until the fault has met the request and not a handshake: then a driver knows that nothing left, and rightly
// says ErrUnavailable. A look before it opens a connection, in the time that a busy machine needs, but a pool may take it back too late.
func (s *suite) hit(t *testing.T, d driver.Driver, fault Fault, disturb func(Fault), request func() error) (err error) {
	t.Helper()
	for range 20 {
		look := func() error {
			_, err := d.Inspect(s.ctx, s.key("order:1"))
			return err
		}
		if err := retryAmbiguous(s.ctx, look); err != nil {
			t.Fatal(err)
		}
		disturb(fault)
		if err = request(); !errors.Is(err, lock.ErrUnavailable) {
			return err
		}
		fault.Heal()
	}
	return err
}

func testCancelledOnItsWay(t *testing.T, s *suite) {
	d, fault := s.NewFaulty(t)
	a := s.clientOn(t, d, &lock.Options{ReleaseTimeout: time.Second})
	b := s.client(t, nil)
	defer fault.Heal()
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	stop := errors.New("shutting down")
	err := s.hit(t, d, fault, Fault.HoldResponses, func() error {
		result := make(chan error, 1)
		go func() {
			_, err := a.TryAcquire(ctx, "order:1", longTTL, 0)
			result <- err
		}()
		// The acquire has been applied once another replica sees the key held.
		for len(result) == 0 {
			holding, err := b.Inspect(s.ctx, "order:1")
			if err != nil {
				t.Fatal(err)
			}
			if holding.Held {
				cancel(stop)
				break
			}
		}
		return <-result
	})
	wantError(t, err, context.Canceled)
	wantError(t, err, stop)
	wantError(t, err, lock.ErrUnknown)
	fault.Heal()
	mustRelease(t, s.ctx, mustTry(t, s.ctx, b, "order:1", longTTL, patience))
}

func testAttemptTimeout(t *testing.T, s *suite) {
	d, fault := s.NewFaulty(t)
	c := s.clientOn(t, d, &lock.Options{AttemptTimeout: 200 * time.Millisecond, ReleaseTimeout: time.Second})
	defer fault.Heal()
	err := s.hit(t, d, fault, Fault.HoldResponses, func() error {
		_, err := c.TryAcquire(s.ctx, "order:1", longTTL, 0)
		return err
	})
	wantError(t, err, lock.ErrUnknown)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("error %v matches a context error, but the caller's context is alive", err)
	}
}

func testStoreDown(t *testing.T, s *suite) {
	d, fault := s.NewFaulty(t)
	c := s.clientOn(t, d, nil)
	fault.Refuse()
	defer fault.Heal()
	_, err := c.TryAcquire(s.ctx, "order:1", longTTL, 0)
	wantStoreFault(t, err)
	_, err = c.Acquire(s.ctx, "order:1", longTTL, time.Second)
	wantStoreFault(t, err)
}

func wantStoreFault(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, lock.ErrUnavailable) && !errors.Is(err, lock.ErrUnknown) {
		t.Fatalf("error is %v, want a fault of the store", err)
	}
	for _, not := range []error{lock.ErrHeld, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, not) {
			t.Errorf("error %v matches %q", err, not)
		}
	}
}

func testStoreBack(t *testing.T, s *suite) {
	d, fault := s.NewFaulty(t)
	c := s.clientOn(t, d, nil)
	mustRelease(t, s.ctx, mustTry(t, s.ctx, c, "order:1", longTTL, 0))
	fault.Refuse()
	_, err := c.TryAcquire(s.ctx, "order:1", longTTL, 0)
	wantStoreFault(t, err)
	fault.Heal()
	var h *lock.Handle
	err = retryAmbiguous(s.ctx, func() (err error) {
		h, err = c.TryAcquire(s.ctx, "order:1", longTTL, patience)
		return err
	})
	if err != nil {
		t.Fatalf("acquire after the store came back: %v", err)
	}
	mustRelease(t, s.ctx, h)
}
