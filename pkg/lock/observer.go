// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Observer is told what a Client does, for metrics and traces. Set the hooks that you need; later versions may add hooks and fields of events.
// Packages lockprom and lockotel of module pkg/adapters make observers for Prometheus and OpenTelemetry.
//
// # Goroutines
//
// No hook is called under a mutex of the client, and none can move the end of a lock: a handle that is over is invalid and its context has ended
// before a hook hears of it. A hook that blocks holds up the call that it is part of, that call's place in the process's queue for its
// key, and no other call, renewal or loss signal. The Start and End hooks, and the hooks for what happened in a call, run on the goroutine of that
// call; losses, scheduled renewals and background releases are told on goroutines of their own. A call that a hook holds up has not told its caller of
// the grant, or the store of the release, so the key is free when the TTL has run out. Hooks are called by many goroutines at the same time.
//
// A hook that panics is logged at Error, and counts as one that did nothing.
//
// # Contexts
//
// A Start hook may return a context derived from the one that it got, with a span for example. The call sends its requests with it, and the End
// hook gets it; the function of Do gets that of DoStart. A nil return leaves the context as it is. Handle.Context has the values
// of the caller's context, not those of AcquireStart, since the call is over by then. The context of the other hooks may have ended; use its
// values only.
//
// Events have the key. Keys can be sensitive and have no bound: keep them out of the labels of metrics.
type Observer struct {
	// AcquireStart and AcquireEnd surround every Acquire and TryAcquire, those of Do as well.
	AcquireStart func(ctx context.Context, e AcquireStartEvent) context.Context
	AcquireEnd   func(ctx context.Context, e AcquireEndEvent)
	// DoStart and DoEnd surround every Do, from before its acquire until after its release.
	DoStart func(ctx context.Context, e DoStartEvent) context.Context
	DoEnd   func(ctx context.Context, e DoEndEvent)
	// ReleaseStart and ReleaseEnd surround the first Release or Leave of a handle, which does the work. The handle is over before ReleaseStart.
	ReleaseStart func(ctx context.Context, e ReleaseStartEvent) context.Context
	ReleaseEnd   func(ctx context.Context, e ReleaseEndEvent)
	// HoldEnd follows every AcquireEnd whose outcome was OutcomeGranted, once and after it: when the lock was released or lost.
	HoldEnd func(ctx context.Context, e HoldEndEvent)
	// Renew follows every renewal that was sent, of Do or of the owner.
	Renew func(ctx context.Context, e RenewEvent)
	// Cleanup follows every background release of an acquisition that the store may have recorded although no caller got it, and of one whose
	// release failed.
	Cleanup func(ctx context.Context, e CleanupEvent)
	// Fault follows every request that failed because of the store or the way to it, also one that a waiter rides out. A key that is held, and a
	// caller that gave up, are no faults.
	Fault func(ctx context.Context, e FaultEvent)
}

// Outcome is how a call or a request ended: a word of a small fixed set.
type Outcome string

// How calls and requests end.
const (
	// OutcomeGranted: the acquire returned a handle.
	OutcomeGranted Outcome = "granted"
	// OutcomeHeld: the acquire ended because somebody else held the key (ErrHeld).
	OutcomeHeld Outcome = "held"
	// OutcomeRenewed: the store took the renewal.
	OutcomeRenewed Outcome = "renewed"
	// OutcomeReleased: the store took the release, or the lock was passed on to the next waiter of the process.
	OutcomeReleased Outcome = "released"
	// OutcomeLost: the lock was lost before the call was over (ErrLost).
	OutcomeLost Outcome = "lost"
	// OutcomeUnavailable: certainly not applied (ErrUnavailable).
	OutcomeUnavailable Outcome = "unavailable"
	// OutcomeUnknown: perhaps applied (ErrUnknown, and errors that match no outcome).
	OutcomeUnknown Outcome = "unknown"
	// OutcomeForeign: the store has something else in the place of the lock (ErrForeign).
	OutcomeForeign Outcome = "foreign"
	// OutcomeBackendChanged: the client has failed because the binding names another backend (ErrBackendChanged).
	OutcomeBackendChanged Outcome = "backend-changed"
	// OutcomeClosed: the client was closed (ErrClosed).
	OutcomeClosed Outcome = "closed"
	// OutcomeCancelled: the caller's context ended, or the handle was released while the renewal was under way.
	OutcomeCancelled Outcome = "cancelled"
	// OutcomeInvalid: an argument was refused (ErrInvalid).
	OutcomeInvalid Outcome = "invalid"
	// OutcomeNotHolder: the background release found nothing to release: the acquisition was never applied, or has ended.
	OutcomeNotHolder Outcome = "not-holder"
	// OutcomeExpired: the background release failed until the TTL had run out.
	OutcomeExpired Outcome = "expired"
	// OutcomeDropped: the background release was left to the TTL, because too many were pending or the client was closed.
	OutcomeDropped Outcome = "dropped"
)

// AcquireStartEvent is an acquire that begins. Its arguments are as the caller gave them, perhaps invalid.
type AcquireStartEvent struct {
	// Key is the application's key.
	Key string
	// TTL and Wait are the arguments of the call; TTL 0 stands for Options.DefaultTTL.
	TTL, Wait time.Duration
}

// AcquireEndEvent is an acquire that ended.
type AcquireEndEvent struct {
	// Key is the application's key.
	Key string
	// Outcome is OutcomeGranted, OutcomeHeld, OutcomeUnavailable, OutcomeUnknown, OutcomeForeign, OutcomeBackendChanged, OutcomeClosed,
	// OutcomeCancelled, OutcomeInvalid, or OutcomeLost for a grant that the store took back before the caller got it.
	Outcome Outcome
	// Waited is the time from the call to its end.
	Waited time.Duration
	// Token is that of the grant.
	Token Token
	// PassedOn says that another goroutine of this process passed the lock on, without a release and an acquire between.
	PassedOn bool
	// Err is what the caller gets.
	Err error
}

// DoStartEvent is a Do that begins.
type DoStartEvent struct {
	// Key is the application's key.
	Key string
	// Options are as the caller gave them, zero for nil.
	Options DoOptions
}

// DoEndEvent is a Do that ended.
type DoEndEvent struct {
	// Key is the application's key.
	Key string
	// Ran says that the function was called.
	Ran bool
	// Panicked says that the function did not return. The panic goes on.
	Panicked bool
	// Took is the time from the call to its end.
	Took time.Duration
	// Err is what the caller gets.
	Err error
}

// ReleaseStartEvent is the release of a lock that begins.
type ReleaseStartEvent struct {
	// Key and Token are those of the handle.
	Key   string
	Token Token
	// Rest is how long Leave leaves the key locked, 0 for Release.
	Rest time.Duration
}

// ReleaseEndEvent is the release of a lock that ended.
type ReleaseEndEvent struct {
	// Key and Token are those of the handle.
	Key   string
	Token Token
	// Rest is how long Leave leaves the key locked, 0 for Release.
	Rest time.Duration
	// Outcome is OutcomeReleased, OutcomeLost, OutcomeUnavailable, OutcomeUnknown, or OutcomeBackendChanged.
	Outcome Outcome
	// Took is the time from the call to its end.
	Took time.Duration
	// Err is what the caller gets.
	Err error
}

// HoldEndEvent is the end of a lock.
type HoldEndEvent struct {
	// Key and Token are those of the handle.
	Key   string
	Token Token
	// Reason is why the lock was lost, "" if it was released.
	Reason LossReason
	// Held is the time from the request that was granted to the end.
	Held time.Duration
	// Err is the *LostError if the lock was lost.
	Err error
}

// RenewEvent is a renewal that was sent.
type RenewEvent struct {
	// Key and Token are those of the handle.
	Key   string
	Token Token
	// Outcome is OutcomeRenewed, OutcomeLost, OutcomeUnavailable, OutcomeUnknown, OutcomeBackendChanged or OutcomeCancelled.
	Outcome Outcome
	// Took is the time until the answer; of renewals that were sent together, that of the last.
	Took time.Duration
	// Err is nil after a success. A renewal that failed is tried again by Do while the lock is held.
	Err error
}

// CleanupEvent is the end of a background release.
type CleanupEvent struct {
	// Key is the application's key.
	Key string
	// Outcome is OutcomeReleased, OutcomeNotHolder, OutcomeExpired or OutcomeDropped.
	Outcome Outcome
	// Took is the time since the release became necessary.
	Took time.Duration
}

// FaultEvent is a request that failed.
type FaultEvent struct {
	// Key is the application's key.
	Key string
	// Op is what was asked: "acquire", "pass", "renew", "release" or "subscribe".
	Op string
	// Reason is the constant word of the *StoreError, for example "timeout"; "foreign" for ErrForeign; "backend-changed" for
	// ErrBackendChanged; "unclassified" for other errors of a driver.
	Reason string
	// Err is the fault.
	Err error
}

// outcomeOf sorts an error of a call with the caller's ctx.
func (c *Client) outcomeOf(ctx context.Context, err error, success Outcome) Outcome {
	switch {
	case err == nil:
		return success
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return OutcomeCancelled
	case errors.Is(err, ErrInvalid):
		return OutcomeInvalid
	case errors.Is(err, ErrLost):
		return OutcomeLost
	case errors.Is(err, ErrHeld):
		return OutcomeHeld
	case errors.Is(err, ErrForeign):
		return OutcomeForeign
	case errors.Is(err, ErrClosed):
		return OutcomeClosed
	case errors.Is(err, ErrBackendChanged):
		return OutcomeBackendChanged
	case errors.Is(err, ErrUnknown):
		return OutcomeUnknown
	case errors.Is(err, ErrUnavailable):
		return OutcomeUnavailable
	}
	if failure := c.err(); failure != nil && errors.Is(err, failure) {
		return OutcomeBackendChanged // Fail was told another cause.
	}
	return OutcomeUnknown
}

// outcomeOfRenewal sorts the end of a renewal of h. One that its own release broke off says nothing about the store.
func (h *Handle) outcomeOfRenewal(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return OutcomeRenewed
	case errors.Is(context.Cause(h.ctx), ErrReleased):
		return OutcomeCancelled
	case errors.Is(err, ErrLost):
		return OutcomeLost
	}
	return h.client.outcomeOf(ctx, err, OutcomeRenewed)
}

// faultReason is the word for a fault of the store, "" for what is none.
func faultReason(err error) string {
	if err == nil || errors.Is(err, ErrHeld) || errors.Is(err, ErrLost) || errors.Is(err, driver.ErrNotHolder) {
		return ""
	}
	if store, ok := errors.AsType[*StoreError](err); ok {
		return store.Reason
	}
	switch {
	case errors.Is(err, ErrForeign):
		return "foreign"
	case errors.Is(err, ErrBackendChanged):
		return "backend-changed"
	}
	return "unclassified"
}
