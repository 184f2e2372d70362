// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import "context"

// Outcome is what became of a request with a key: a word of a small fixed set.
type Outcome string

// What becomes of requests.
const (
	// OutcomeExecuted: the handler ran, guarded.
	OutcomeExecuted Outcome = "executed"
	// OutcomeDegraded: the handler ran, and something of the guard was missing.
	OutcomeDegraded Outcome = "degraded"
	// OutcomeReplayed: an earlier answer was given.
	OutcomeReplayed Outcome = "replayed"
	// OutcomeUnavailable: the request was executed earlier, but its answer was not kept.
	OutcomeUnavailable Outcome = "response-unavailable"
	// OutcomeInFlight: the same request is being executed.
	OutcomeInFlight Outcome = "in-flight"
	// OutcomeMismatch: the key belongs to another request.
	OutcomeMismatch Outcome = "mismatch"
	// OutcomeRefused: the request itself was refused (400, 413), or the route is not set up (500).
	OutcomeRefused Outcome = "refused"
	// OutcomeFailedClosed: lock or store are out of order and the route fails closed.
	OutcomeFailedClosed Outcome = "failed-closed"
	// OutcomeGone: the client left before its turn.
	OutcomeGone Outcome = "gone"
	// OutcomePanicked: the handler did not return.
	OutcomePanicked Outcome = "panicked"
)

// Reason is why a guard is degraded: a word of a small fixed set. It is the value of the degraded header.
type Reason string

// Why a guard is degraded.
const (
	// ReasonLock: the lock could not be asked. The record still guards.
	ReasonLock Reason = "lock"
	// ReasonStore: the store could not be asked before the handler ran. The lock still guards against requests at the same time.
	ReasonStore Reason = "store"
	// ReasonStoreFull: the store has no room. Before the handler ran it took no record, and the lock still guarded; after it ran, the answer was not kept, and a repeat is
	// not executed if its record was there before.
	ReasonStoreFull Reason = "store-full"
	// ReasonCommit: the handler ran and its answer could not be stored. A repeat may run again once the lease is over.
	ReasonCommit Reason = "commit"
	// ReasonClaimLost: another execution took the record over while the handler ran, since this one was stopped for longer than its lease.
	ReasonClaimLost Reason = "claim-lost"
	// ReasonCorrupt: the stored answer could not be read. The request was not executed again.
	ReasonCorrupt Reason = "corrupt"
)

// Observer is told what a guard does, for metrics. Set the hooks that you need. They are called on the goroutine of the request. Routes are
// the names of the wiring, so their number is bounded; no event has a key or a path.
type Observer struct {
	// Answered follows every request that had a key, good or bad.
	Answered func(ctx context.Context, e AnsweredEvent)
	// Degraded follows every fault that left something of the guard out, also with FailClosed.
	Degraded func(ctx context.Context, e DegradedEvent)
}

// AnsweredEvent is the end of a request with a key.
type AnsweredEvent struct {
	// Route is that of the policy.
	Route string
	// Outcome is what became of the request.
	Outcome Outcome
}

// DegradedEvent is a fault.
type DegradedEvent struct {
	// Route is that of the policy.
	Route string
	// Reason is the value of the degraded header.
	Reason Reason
	// Err is the fault.
	Err error
}
