// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
)

// observers calls the hooks. None of its methods may be called under a mutex of the client, or while something that others wait for is
// under way.
type observers struct {
	list []*Observer
	log  *slog.Logger
}

func newObservers(list []*Observer, log *slog.Logger) observers {
	return observers{list: slices.DeleteFunc(slices.Clone(list), func(o *Observer) bool { return o == nil }), log: log}
}

func (o *observers) none() bool { return len(o.list) == 0 }

func (o *observers) acquireStart(ctx context.Context, e AcquireStartEvent) context.Context {
	return start(ctx, o, "AcquireStart", func(o *Observer) startHook[AcquireStartEvent] { return o.AcquireStart }, e)
}

func (o *observers) acquireEnd(ctx context.Context, e AcquireEndEvent) {
	for _, each := range o.list {
		tell(ctx, o, "AcquireEnd", each.AcquireEnd, e)
	}
}

func (o *observers) doStart(ctx context.Context, e DoStartEvent) context.Context {
	return start(ctx, o, "DoStart", func(o *Observer) startHook[DoStartEvent] { return o.DoStart }, e)
}

func (o *observers) doEnd(ctx context.Context, e DoEndEvent) {
	for _, each := range o.list {
		tell(ctx, o, "DoEnd", each.DoEnd, e)
	}
}

func (o *observers) releaseStart(ctx context.Context, e ReleaseStartEvent) context.Context {
	return start(ctx, o, "ReleaseStart", func(o *Observer) startHook[ReleaseStartEvent] { return o.ReleaseStart }, e)
}

func (o *observers) releaseEnd(ctx context.Context, e ReleaseEndEvent) {
	for _, each := range o.list {
		tell(ctx, o, "ReleaseEnd", each.ReleaseEnd, e)
	}
}

func (o *observers) holdEnd(ctx context.Context, e HoldEndEvent) {
	for _, each := range o.list {
		tell(ctx, o, "HoldEnd", each.HoldEnd, e)
	}
}

func (o *observers) renew(ctx context.Context, e RenewEvent) {
	for _, each := range o.list {
		tell(ctx, o, "Renew", each.Renew, e)
	}
}

func (o *observers) cleanup(ctx context.Context, e CleanupEvent) {
	for _, each := range o.list {
		tell(ctx, o, "Cleanup", each.Cleanup, e)
	}
}

// fault tells of a fault of the store; err may be nil, or something else than a fault.
func (o *observers) fault(ctx context.Context, key, op string, err error) {
	if o.none() {
		return
	}
	reason := faultReason(err)
	if reason == "" {
		return
	}
	for _, each := range o.list {
		tell(ctx, o, "Fault", each.Fault, FaultEvent{Key: key, Op: op, Reason: reason, Err: err})
	}
}

type startHook[E any] = func(context.Context, E) context.Context

// start calls a Start hook of each observer, and returns the context to go on with.
func start[E any](ctx context.Context, o *observers, name string, hook func(*Observer) startHook[E], e E) context.Context {
	for _, each := range o.list {
		ctx = begin(ctx, o, name, hook(each), e) //nolint:fatcontext // One value for each observer, of which there are few.
	}
	return ctx
}

// begin calls the Start hook of one observer, and returns the context to go on with.
func begin[E any](ctx context.Context, o *observers, name string, hook startHook[E], e E) (derived context.Context) {
	if hook == nil {
		return ctx
	}
	derived = ctx
	defer o.guard(name)
	if c := hook(ctx, e); c != nil {
		derived = c
	}
	return derived
}

func tell[E any](ctx context.Context, o *observers, name string, hook func(context.Context, E), e E) {
	if hook == nil {
		return
	}
	defer o.guard(name)
	hook(ctx, e)
}

// guard keeps the panic of a hook from the lock that it was told of.
func (o *observers) guard(name string) {
	if p := recover(); p != nil {
		o.log.Error("an observer of locks panicked", "hook", name, "panic", p, "stack", string(debug.Stack()))
	}
}
