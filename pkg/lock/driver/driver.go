// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package driver is the contract between the lock client and one store of locks. Applications use
// package lock; this package is for those who write a backend. A driver knows one store and nothing
// else: the client above it validates, qualifies keys, waits, keeps deadlines, logs and counts.
//
// Every driver passes the conformance suite in package locktest against its real server.
//
// # Outcomes
//
// Each call either succeeds or returns an error that matches, by errors.Is, exactly one of ErrHeld,
// ErrNotHolder, ErrUnavailable, ErrUnknown, ErrForeign, ErrBackendChanged. When the caller's context ended
// the error matches the context's error as well (ContextError makes one that matches its cause too), and it is ErrUnknown unless the driver is certain that the request
// never left. A driver never retries an acquire after an ambiguous failure.
//
// # Time
//
// The client takes the time before it calls the driver, so whatever the driver waits for (a limiter, a pool, a
// dial, a retry after a definite refusal) shortens the handle and never lengthens it. No wall clock of
// a client goes into a decision; wall times on the wire are for display.
//
// All methods of all interfaces here are safe for concurrent use, unless they say otherwise.
package driver

import (
	"context"
	"time"
)

// Key names a lock in a store. Prefix is the lock namespace's prefix, for example "lk:{payments/billing}:"; Name is
// the application's key, 1 to 1024 bytes of any content. Two keys are the same lock only when both parts are equal.
type Key struct {
	Prefix string
	Name   string
}

// Driver stores locks in one store.
type Driver interface {
	// Acquire makes one attempt and never blocks because the key is held. On success the store has recorded the
	// acquisition id as the holder and the returned token is greater than every token granted before for this key.
	// A held key is a *HeldError.
	Acquire(ctx context.Context, req AcquireRequest) (Grant, error)

	// Renew sets the time that is left to req.TTL if req.ID is still the holder. It never creates a missing record. ErrNotHolder
	// means definitely lost.
	Renew(ctx context.Context, req RenewRequest) (Renewal, error)

	// Release frees the key if req.ID holds it, and wakes waiters. ErrNotHolder means that the store holds no such
	// acquisition: it ran out, or was never applied. Release may be called for an acquisition whose Acquire returned ErrUnknown.
	Release(ctx context.Context, req ReleaseRequest) error

	// Inspect tells who holds the key, for people. The answer may be out of date when it arrives.
	Inspect(ctx context.Context, key Key) (Holding, error)

	// Limits tells what durations the store can keep. The answer is constant.
	Limits() Limits

	// Close ends what the driver itself started (subscriptions, watches, background work) and waits for it. It does not close a client that the
	// application handed in, and releases no lock.
	Close() error
}

// AcquireRequest asks for a key.
type AcquireRequest struct {
	// Key is what to lock.
	Key Key
	// ID is the acquisition id: 32 lower-case hexadecimal digits (128 random bits), new for every attempt that is not a
	// repetition of a definitely refused one.
	ID string
	// TTL is a positive multiple of Limits.Granularity, between Limits.MinTTL and Limits.MaxTTL.
	TTL time.Duration
	// Owner is shown to people who inspect the lock; at most 256 bytes, never part of a decision.
	Owner string
	// OnLost is called at most once, from any goroutine, if the driver learns without being asked that the granted acquisition is
	// no longer the store's holder (a Lease edited or deleted by hand). The call must not block the driver; it may come before
	// Acquire returns. Drivers that cannot know never call it. Never nil.
	OnLost func(cause error)
}

// Grant is a successful acquire.
type Grant struct {
	// Token is the fencing token: greater than every one that was granted before for the key.
	Token Token
	// TTL is what the store recorded: never less than what was asked.
	TTL time.Duration
}

// RenewRequest asks for more time.
type RenewRequest struct {
	// Key and ID are those of the acquisition that is to be renewed.
	Key Key
	ID  string
	// TTL is as in AcquireRequest, and counts from when the store applies the request.
	TTL time.Duration
}

// Renewal is a successful renew.
type Renewal struct {
	// TTL is what the store recorded: never less than what was asked.
	TTL time.Duration
}

// ReleaseRequest frees a key.
type ReleaseRequest struct {
	// Key and ID are those of the acquisition that is to end.
	Key Key
	ID  string
}

// Holding is what a store tells about a key.
type Holding struct {
	// Held is false when nobody holds the key; the other fields are then zero.
	Held bool
	// ID is the acquisition id of the holder.
	ID string
	// Owner is what the holder gave as AcquireRequest.Owner.
	Owner string
	// Token is the fencing token of the grant.
	Token Token
	// Since is the wall-clock time of the grant, by the clock of the store where it has one, else by the holder's. It is for display only. Zero
	// when the store does not know.
	Since time.Time
	// Remaining is the time until the record runs out by itself, zero when the store does not know.
	Remaining time.Duration
}

// Limits are the durations that a store can keep.
type Limits struct {
	// MinTTL and MaxTTL bound what the store accepts; the client refuses anything else before any I/O.
	MinTTL, MaxTTL time.Duration
	// Granularity is the grain of the store's clock; the client rounds a TTL up to a multiple of it.
	Granularity time.Duration
}

// RenewOutcome is what came of one renewal of several: one of both fields is set.
type RenewOutcome struct {
	// Renewal is what Renew would return, zero with an error.
	Renewal Renewal
	// Err is the error that Renew would return.
	Err error
}

// BatchRenewer is implemented by drivers that can send many renewals at once for the price of one request.
type BatchRenewer interface {
	// RenewBatch sends the renewals together, and returns the outcome of each in the order of the requests. Each is what Renew would return: one
	// that failed says nothing about the others. There may be one request, or several for one prefix, and no two with one ID. ctx bounds all of
	// them.
	RenewBatch(ctx context.Context, reqs []RenewRequest) []RenewOutcome
}

// PassRequest asks to give a held key to another acquisition.
type PassRequest struct {
	// From is the id of the acquisition that holds the key now.
	From string
	// To is what is to hold it: the same key, an id of its own, and its own TTL, owner and OnLost.
	To AcquireRequest
}

// Passer is implemented by drivers that can pass a held key on in one conditional write, so that goroutines of one process that
// queue for a key need no release, notification and acquire between them.
type Passer interface {
	// Pass makes req.To the holder if req.From is, with a new token and the whole TTL, and wakes no waiter. It grants only where Acquire would
	// grant a free key. ErrNotHolder means that req.From was not the holder and that nothing was changed.
	Pass(ctx context.Context, req PassRequest) (Grant, error)
}

// Waiter is implemented by drivers whose store tells when a key becomes free.
type Waiter interface {
	// Subscribe returns when the store has confirmed the subscription, so that an acquire sent afterwards and refused cannot miss the
	// release. All subscriptions of a driver share one connection or watch, where the store can tell of several keys on one.
	Subscribe(ctx context.Context, key Key) (Subscription, error)
}

// Subscription tells when a key may have become free.
type Subscription interface {
	// Wake receives a value when the key may have become free, and after every interruption of the notification path: then
	// something may have been missed. Values are coalesced: the channel has room for one. It is never closed.
	Wake() <-chan struct{}
	// Close ends the subscription. It is idempotent and does not block on the store.
	Close()
}
