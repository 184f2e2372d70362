// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import "time"

// verdict is what a record says about a request with its key.
type verdict int

const (
	// execute: nobody has done it and nobody does it.
	execute verdict = iota
	// replay: it was done, here is the answer.
	replay
	// buried: it was done, the answer was not kept.
	buried
	// inFlight: somebody does it.
	inFlight
	// mismatch: the key belongs to another request.
	mismatch
)

// decide is the one place where a record is judged, on every path. The fingerprint comes first, whatever the state.
func decide(r Record, fingerprint Fingerprint) verdict {
	switch {
	case r.State == Absent:
		return execute
	case r.Fingerprint != fingerprint:
		return mismatch
	case r.State == Done:
		return replay
	case r.State == InFlight && r.Expired:
		return execute
	case r.State == InFlight:
		return inFlight
	default: // A state of a later version is taken as done.
		return buried
	}
}

// decideBegun judges what Begin returned to a claim: it runs only if it owns the record.
func decideBegun(r Record, claim Claim) verdict {
	if r.Owned(claim.Ownership) {
		return execute
	}
	if v := decide(r, claim.Fingerprint); v != execute {
		return v
	}
	return inFlight // An execution under a newer token was here: it may be running.
}

// retryAfter is how many whole seconds a client should wait, at least one.
func retryAfter(left time.Duration) int {
	return max(1, int((left+time.Second-1)/time.Second))
}
