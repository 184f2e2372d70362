// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotencytest

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/lock"
)

func testAbsent(t *testing.T, s *suite) {
	r := s.get(t, newKey())
	if r.State != idempotency.Absent || r.Owner != "" || r.Response != nil {
		t.Errorf("record is %+v, want none", r)
	}
}

func testBegin(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(7), long)
	for what, r := range map[string]idempotency.Record{"Begin": s.begin(t, key, claim), "Get": s.get(t, key)} {
		if !r.Owned(claim.Ownership) || r.Fingerprint != claim.Fingerprint || r.Expired || len(r.Response) != 0 {
			t.Errorf("%s returned %+v, want the claim %+v", what, r, claim)
		}
		if r.Left <= 0 || r.Left > claim.Lease {
			t.Errorf("%s says that %s of the lease are left, want more than 0 and at most %s", what, r.Left, claim.Lease)
		}
	}
}

func testBeginTaken(t *testing.T, s *suite) {
	key, first := newKey(), newClaim(newOwner(1), long)
	s.claimed(t, key, first)
	// A greater token is no reason: the lease decides who may be at work.
	r, err := s.NewStore(t).Begin(s.ctx, key, newClaim(newOwner(2), long))
	if err != nil {
		t.Fatal(err)
	}
	if !r.Owned(first.Ownership) || r.Fingerprint != first.Fingerprint || r.Left <= 0 {
		t.Errorf("Begin returned %+v, want the record of %+v", r, first)
	}
	s.complete(t, key, first.Ownership, done("answer"))
	if r := s.begin(t, key, newClaim(newOwner(3), long)); r.State != idempotency.Done || string(r.Response) != "answer" || r.Fingerprint != first.Fingerprint {
		t.Errorf("Begin returned %+v, want the answer", r)
	}
}

func testBeginRepeated(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(1), long)
	s.claimed(t, key, claim)
	s.claimed(t, key, claim)
	other := claim
	other.Token.Sequence++
	if r := s.begin(t, key, other); r.Owned(other.Ownership) || !r.Owned(claim.Ownership) {
		t.Errorf("Begin with the owner and another token returned %+v, want the first record", r)
	}
}

func testKeysApart(t *testing.T, s *suite) {
	key, other := newKey(), newKey()
	other[0] = key[0]
	s.claimed(t, key, newClaim(newOwner(1), long))
	if r := s.get(t, other); r.State != idempotency.Absent {
		t.Errorf("the other key has %+v", r)
	}
}

func testTokens(t *testing.T, s *suite) {
	for _, token := range []lock.Token{{}, {Epoch: 1, Sequence: 1}, {Epoch: 1 << 53, Sequence: 1<<53 + 1}, {Epoch: math.MaxUint64, Sequence: math.MaxUint64}} {
		key, claim := newKey(), newClaim(newOwner(0), long)
		claim.Token = token
		s.claimed(t, key, claim)
		if r := s.get(t, key); r.Token != token {
			t.Errorf("token %v came back as %v", token, r.Token)
		}
	}
}

func testCancelled(t *testing.T, s *suite) {
	key := newKey()
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.store.Begin(ctx, key, newClaim(newOwner(1), long)); !errors.Is(err, context.Canceled) {
		t.Errorf("Begin: %v, want one that matches context.Canceled", err)
	}
	if r := s.get(t, key); r.State != idempotency.Absent {
		t.Errorf("the record is %+v, want none", r)
	}
}

func testAbort(t *testing.T, s *suite) {
	key, first := newKey(), newClaim(newOwner(5), long)
	s.claimed(t, key, first)
	for range 2 { // It may be repeated.
		if err := s.store.Abort(s.ctx, key, first.Ownership); err != nil {
			t.Fatalf("Abort: %v", err)
		}
	}
	if r := s.get(t, key); r.State != idempotency.Absent {
		t.Fatalf("the record is %+v, want none", r)
	}
	s.claimed(t, key, newClaim(newOwner(6), long))
}

func testAbortForeign(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(5), long)
	s.claimed(t, key, claim)
	before := s.get(t, key)
	s.wantLost(t, key, before, s.store.Abort(s.ctx, key, newOwner(6)))
	stale := claim.Ownership
	stale.Token.Sequence--
	s.wantLost(t, key, before, s.store.Abort(s.ctx, key, stale))
	s.complete(t, key, claim.Ownership, done("answer"))
	s.wantLost(t, key, s.get(t, key), s.store.Abort(s.ctx, key, claim.Ownership))
}

func testExtend(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(1), short)
	s.claimed(t, key, claim)
	if err := s.store.Extend(s.ctx, key, claim.Ownership, long); err != nil {
		t.Fatalf("Extend: %v", err)
	}
	if r := s.get(t, key); !r.Owned(claim.Ownership) || r.Expired || r.Left <= claim.Lease || r.Fingerprint != claim.Fingerprint {
		t.Errorf("the record is %+v, want a longer lease", r)
	}
}

func testExtendForeign(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(5), long)
	s.wantLost(t, key, idempotency.Record{}, s.store.Extend(s.ctx, key, claim.Ownership, long))
	s.claimed(t, key, claim)
	before := s.get(t, key)
	s.wantLost(t, key, before, s.store.Extend(s.ctx, key, newOwner(6), 2*long))
	s.complete(t, key, claim.Ownership, done("answer"))
	s.wantLost(t, key, s.get(t, key), s.store.Extend(s.ctx, key, claim.Ownership, 2*long))
}

func testExtendRevives(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(1), short)
	s.claimed(t, key, claim)
	s.awaitExpired(t, key)
	if err := s.store.Extend(s.ctx, key, claim.Ownership, long); err != nil {
		t.Fatalf("Extend: %v", err)
	}
	if r := s.begin(t, key, newClaim(newOwner(2), long)); !r.Owned(claim.Ownership) {
		t.Errorf("Begin returned %+v, want the record of the one that extended", r)
	}
}
