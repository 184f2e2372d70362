// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"sync"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Interpose puts a Fault between a client and a driver, for stores without a network path. Drivers of a server are tested with
// faults on their real connections instead.
func Interpose(d driver.Driver) (driver.Driver, Fault) {
	f := &interposed{Driver: d, changed: make(chan struct{})}
	waiter, waits := d.(driver.Waiter)
	passer, passes := d.(driver.Passer)
	w, p := interposedWaiter{f, waiter}, interposedPasser{f, passer}
	switch {
	case waits && passes:
		return struct {
			*interposed
			interposedWaiter
			interposedPasser
		}{f, w, p}, f
	case waits:
		return struct {
			*interposed
			interposedWaiter
		}{f, w}, f
	case passes:
		return struct {
			*interposed
			interposedPasser
		}{f, p}, f
	}
	return f, f
}

type faultMode int

const (
	healthy faultMode = iota
	holding
	dropping
	refusing
)

type interposed struct {
	driver.Driver

	mu      sync.Mutex
	mode    faultMode
	changed chan struct{} // closed at each change of mode
}

type interposedWaiter struct {
	fault  *interposed
	waiter driver.Waiter
}

type interposedPasser struct {
	fault  *interposed
	passer driver.Passer
}

func (f *interposed) set(mode faultMode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = mode
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *interposed) HoldResponses() { f.set(holding) }
func (f *interposed) DropResponses() { f.set(dropping) }
func (f *interposed) Refuse()        { f.set(refusing) }
func (f *interposed) Heal()          { f.set(healthy) }

func (f *interposed) now() (faultMode, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mode, f.changed
}

// carry runs a request and brings its answer back, as the mode allows.
func carry[T any](ctx context.Context, f *interposed, op string, request func() (T, error)) (T, error) {
	var none T
	if mode, _ := f.now(); mode == refusing {
		return none, &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: "refused", Err: errors.New("connection refused")}
	}
	answer, err := request()
	for {
		switch mode, changed := f.now(); mode {
		case healthy:
			return answer, err
		case holding:
			select {
			case <-changed:
			case <-ctx.Done():
				return none, &driver.StoreError{Outcome: driver.ErrUnknown, Op: op, Reason: "timeout", Err: ctx.Err()}
			}
		case dropping, refusing:
			return none, &driver.StoreError{Outcome: driver.ErrUnknown, Op: op, Reason: "connection", Err: errors.New("connection reset")}
		}
	}
}

func (f *interposed) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	return carry(ctx, f, "acquire", func() (driver.Grant, error) { return f.Driver.Acquire(ctx, req) })
}

func (f *interposed) Renew(ctx context.Context, req driver.RenewRequest) (driver.Renewal, error) {
	return carry(ctx, f, "renew", func() (driver.Renewal, error) { return f.Driver.Renew(ctx, req) })
}

func (f *interposed) Release(ctx context.Context, req driver.ReleaseRequest) error {
	_, err := carry(ctx, f, "release", func() (struct{}, error) { return struct{}{}, f.Driver.Release(ctx, req) })
	return err
}

func (f *interposed) Inspect(ctx context.Context, key driver.Key) (driver.Holding, error) {
	return carry(ctx, f, "inspect", func() (driver.Holding, error) { return f.Driver.Inspect(ctx, key) })
}

func (w interposedWaiter) Subscribe(ctx context.Context, key driver.Key) (driver.Subscription, error) {
	return carry(ctx, w.fault, "subscribe", func() (driver.Subscription, error) { return w.waiter.Subscribe(ctx, key) })
}

func (p interposedPasser) Pass(ctx context.Context, req driver.PassRequest) (driver.Grant, error) {
	return carry(ctx, p.fault, "pass", func() (driver.Grant, error) { return p.passer.Pass(ctx, req) })
}
