// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package idempotencytest is the conformance suite of idempotency stores: what idempotency.Store promises, asked of a store and its real server. A store
// calls Run with a Harness:
//
//	func TestConformance(t *testing.T) {
//		idempotencytest.Run(t, idempotencytest.Harness{
//			NewStore: func(t *testing.T) idempotency.Store { … },
//		})
//	}
//
// The suite uses real time, since the servers do. No test asserts how long something took.
package idempotencytest

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/lock"
)

// Harness connects the suite to one store. All functions may be called from any subtest; what they start ends by t.Cleanup.
type Harness struct {
	// NewStore opens the store as a process of its own would. All stores of a Harness share their records.
	NewStore func(t *testing.T) idempotency.Store
	// MaxResponse is how many bytes of a response the stores keep. 0 means that they have no limit.
	MaxResponse int
}

const (
	// patience is far longer than any healthy step takes.
	patience = 30 * time.Second
	// long does not run out within a test.
	long = 10 * time.Minute
	// short is a lease that a test can wait for.
	short = 300 * time.Millisecond
)

// Run runs the whole suite as subtests of t.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, tc := range []struct {
		name string
		run  func(t *testing.T, s *suite)
	}{
		{"a key without a record is absent", testAbsent},
		{"begin claims a free key and tells the claim", testBegin},
		{"begin on a taken key returns the other's record", testBeginTaken},
		{"begin may be repeated", testBeginRepeated},
		{"keys are apart", testKeysApart},
		{"tokens of every size are kept", testTokens},
		{"begin on a cancelled context claims nothing", testCancelled},
		{"complete keeps the response as it is", testComplete},
		{"complete may be repeated", testCompleteRepeated},
		{"a tombstone stays", testTombstone},
		{"complete of another owner is refused", testCompleteForeign},
		{"complete without a record is refused", testCompleteAbsent},
		{"a response that is too large changes nothing", testTooLarge},
		{"abort frees the key", testAbort},
		{"abort of another owner is refused", testAbortForeign},
		{"extend keeps the lease", testExtend},
		{"extend of another owner is refused", testExtendForeign},
		{"extend revives a lease that nobody took over", testExtendRevives},
		{"complete works after a lease that nobody took over", testCompleteLate},
		{"a dead execution is taken over", testTakeover},
		{"a stale token does not take over", testStaleToken},
		{"a record goes when its retention is over", testRetention},
		{"a claim goes when its retention is over", testClaimRetention},
		{"one of many begins is granted", testBeginRace},
		{"one of many takeovers is granted", testTakeoverRace},
		{"a late complete and a takeover exclude each other", testCompleteRace},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			tc.run(t, &suite{Harness: h, ctx: ctx, store: h.NewStore(t)})
		})
	}
}

// suite is what one test has.
type suite struct {
	Harness
	ctx   context.Context
	store idempotency.Store
}

// newKey is a key that no other test uses.
func newKey() (key idempotency.Key) {
	_, _ = rand.Read(key[:])
	return key
}

func newOwner(sequence uint64) idempotency.Ownership {
	return idempotency.Ownership{Owner: rand.Text(), Token: lock.Token{Epoch: min(sequence, 1), Sequence: sequence}}
}

func newClaim(owner idempotency.Ownership, lease time.Duration) idempotency.Claim {
	c := idempotency.Claim{Ownership: owner, Lease: lease, Retention: long}
	_, _ = rand.Read(c.Fingerprint[:])
	return c
}

func (s *suite) get(t *testing.T, key idempotency.Key) idempotency.Record {
	t.Helper()
	r, err := s.store.Get(s.ctx, key)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return r
}

func (s *suite) begin(t *testing.T, key idempotency.Key, claim idempotency.Claim) idempotency.Record {
	t.Helper()
	r, err := s.store.Begin(s.ctx, key, claim)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return r
}

// claimed begins and fails the test unless the claim was granted.
func (s *suite) claimed(t *testing.T, key idempotency.Key, claim idempotency.Claim) {
	t.Helper()
	if r := s.begin(t, key, claim); !r.Owned(claim.Ownership) {
		t.Fatalf("Begin was not granted: %+v", r)
	}
}

func done(response string) idempotency.Result {
	return idempotency.Result{State: idempotency.Done, Response: []byte(response), Retention: long}
}

func (s *suite) complete(t *testing.T, key idempotency.Key, owner idempotency.Ownership, result idempotency.Result) {
	t.Helper()
	if err := s.store.Complete(s.ctx, key, owner, result); err != nil {
		t.Fatalf("Complete: %v", err)
	}
}

// awaitRecord looks until the record is as wanted.
func (s *suite) awaitRecord(t *testing.T, key idempotency.Key, what string, wanted func(idempotency.Record) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	for {
		r := s.get(t, key)
		if wanted(r) {
			return
		}
		pause := time.NewTimer(20 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %+v", what, patience, r)
		}
	}
}

func (s *suite) awaitExpired(t *testing.T, key idempotency.Key) {
	t.Helper()
	s.awaitRecord(t, key, "the end of the lease", func(r idempotency.Record) bool { return r.Expired })
}

// wantLost fails unless the step was refused and the record is as it was.
func (s *suite) wantLost(t *testing.T, key idempotency.Key, before idempotency.Record, err error) {
	t.Helper()
	var lost *idempotency.ClaimLostError
	if !errors.Is(err, idempotency.ErrClaimLost) || !errors.As(err, &lost) {
		t.Fatalf("error is %v, want a *ClaimLostError", err)
	}
	if lost.Found != before.State {
		t.Errorf("the error says that the record is %s, want %s", lost.Found, before.State)
	}
	s.wantSame(t, key, before)
}

func (s *suite) wantSame(t *testing.T, key idempotency.Key, before idempotency.Record) {
	t.Helper()
	after := s.get(t, key)
	if after.State != before.State || after.Ownership != before.Ownership || after.Fingerprint != before.Fingerprint || string(after.Response) != string(before.Response) {
		t.Errorf("the record is %+v, want it unchanged: %+v", after, before)
	}
}
