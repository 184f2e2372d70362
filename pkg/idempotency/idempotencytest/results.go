// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotencytest

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

func testComplete(t *testing.T, s *suite) {
	var every strings.Builder
	for b := range 256 {
		every.WriteByte(byte(b))
	}
	for name, response := range map[string]string{"empty": "", "every byte": every.String(), "long": strings.Repeat("0123456789abcdef", 4<<10)} {
		if s.MaxResponse != 0 && len(response) > s.MaxResponse {
			continue
		}
		key, claim := newKey(), newClaim(newOwner(1), long)
		s.claimed(t, key, claim)
		s.complete(t, key, claim.Ownership, done(response))
		if r := s.get(t, key); r.State != idempotency.Done || string(r.Response) != response || r.Fingerprint != claim.Fingerprint || r.Expired {
			t.Errorf("%s: the record is %s with %d bytes, want done with %d", name, r.State, len(r.Response), len(response))
		}
	}
}

func testCompleteRepeated(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(1), long)
	s.claimed(t, key, claim)
	s.complete(t, key, claim.Ownership, done("answer"))
	s.complete(t, key, claim.Ownership, done("answer"))
	if r := s.get(t, key); string(r.Response) != "answer" {
		t.Errorf("the record is %+v", r)
	}
}

func testTombstone(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(1), long)
	s.claimed(t, key, claim)
	result := done("status")
	result.State = idempotency.Tombstone
	s.complete(t, key, claim.Ownership, result)
	if r := s.begin(t, key, newClaim(newOwner(2), long)); r.State != idempotency.Tombstone || string(r.Response) != "status" {
		t.Errorf("Begin returned %+v, want the tombstone", r)
	}
}

func testCompleteForeign(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(5), long)
	s.claimed(t, key, claim)
	before := s.get(t, key)
	s.wantLost(t, key, before, s.store.Complete(s.ctx, key, newOwner(6), done("other")))
	stale := claim.Ownership
	stale.Token.Sequence--
	s.wantLost(t, key, before, s.store.Complete(s.ctx, key, stale, done("stale")))
	s.complete(t, key, claim.Ownership, done("answer"))
	s.wantLost(t, key, s.get(t, key), s.store.Complete(s.ctx, key, newOwner(6), done("other")))
}

func testCompleteAbsent(t *testing.T, s *suite) {
	key := newKey()
	s.wantLost(t, key, idempotency.Record{}, s.store.Complete(s.ctx, key, newOwner(1), done("answer")))
}

func testTooLarge(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(1), long)
	s.claimed(t, key, claim)
	size := 1 << 20
	if s.MaxResponse != 0 {
		size = s.MaxResponse
	}
	if s.MaxResponse != 0 {
		before := s.get(t, key)
		err := s.store.Complete(s.ctx, key, claim.Ownership, done(strings.Repeat("x", size+1)))
		var tooLarge *idempotency.TooLargeError
		if !errors.Is(err, idempotency.ErrTooLarge) || !errors.As(err, &tooLarge) || tooLarge.Size != size+1 {
			t.Fatalf("error is %v, want a *TooLargeError", err)
		}
		s.wantSame(t, key, before)
	}
	s.complete(t, key, claim.Ownership, done(strings.Repeat("x", size)))
	if r := s.get(t, key); len(r.Response) != size {
		t.Errorf("the record has %d bytes, want %d", len(r.Response), size)
	}
}

func testCompleteLate(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(1), short)
	s.claimed(t, key, claim)
	s.awaitExpired(t, key)
	s.complete(t, key, claim.Ownership, done("answer"))
	if r := s.begin(t, key, newClaim(newOwner(2), long)); r.State != idempotency.Done || string(r.Response) != "answer" {
		t.Errorf("Begin returned %+v, want the answer", r)
	}
}

func testTakeover(t *testing.T, s *suite) {
	for name, successor := range map[string]idempotency.Ownership{"greater token": newOwner(6), "same token": newOwner(5), "no token": newOwner(0)} {
		key, first, second := newKey(), newClaim(newOwner(5), short), newClaim(successor, long)
		s.claimed(t, key, first)
		s.awaitExpired(t, key)
		s.claimed(t, key, second)
		before := s.get(t, key)
		if before.Fingerprint != second.Fingerprint || before.Expired {
			t.Errorf("%s: the record is %+v, want that of the second claim", name, before)
		}
		// The first was only stopped, and comes back.
		s.wantLost(t, key, before, s.store.Complete(s.ctx, key, first.Ownership, done("late")))
		s.wantLost(t, key, before, s.store.Extend(s.ctx, key, first.Ownership, long))
		s.wantLost(t, key, before, s.store.Abort(s.ctx, key, first.Ownership))
		s.complete(t, key, second.Ownership, done("answer"))
	}
}

func testStaleToken(t *testing.T, s *suite) {
	key, first := newKey(), newClaim(newOwner(5), short)
	s.claimed(t, key, first)
	s.awaitExpired(t, key)
	stale := newClaim(newOwner(4), long)
	if r := s.begin(t, key, stale); !r.Owned(first.Ownership) || !r.Expired {
		t.Errorf("Begin with a smaller token returned %+v, want the record of the greater", r)
	}
}

func testRetention(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(1), long)
	s.claimed(t, key, claim)
	result := done("answer")
	result.Retention = short
	s.complete(t, key, claim.Ownership, result)
	s.awaitRecord(t, key, "the end of the retention", func(r idempotency.Record) bool { return r.State == idempotency.Absent })
	s.claimed(t, key, newClaim(newOwner(1), long))
}

func testClaimRetention(t *testing.T, s *suite) {
	key, claim := newKey(), newClaim(newOwner(5), short)
	claim.Retention = short
	s.claimed(t, key, claim)
	s.awaitRecord(t, key, "the end of the retention", func(r idempotency.Record) bool { return r.State == idempotency.Absent })
	s.claimed(t, key, newClaim(newOwner(1), long))
}

// replicas is how many stores race.
const replicas = 8

// race lets every replica do something at the same time, and counts who succeeded.
func (s *suite) race(t *testing.T, try func(replica int, store idempotency.Store) (bool, error)) int {
	t.Helper()
	stores := make([]idempotency.Store, replicas)
	for i := range stores {
		stores[i] = s.NewStore(t)
	}
	start := make(chan struct{})
	results, errs := make([]bool, replicas), make([]error, replicas)
	var racing sync.WaitGroup
	for i, store := range stores {
		racing.Go(func() {
			<-start
			results[i], errs[i] = try(i, store)
		})
	}
	close(start)
	racing.Wait()
	won := 0
	for i := range results {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if results[i] {
			won++
		}
	}
	return won
}

func testBeginRace(t *testing.T, s *suite) {
	for range 10 {
		key := newKey()
		if won := s.race(t, func(i int, store idempotency.Store) (bool, error) {
			claim := newClaim(newOwner(uint64(i)), long)
			r, err := store.Begin(s.ctx, key, claim)
			return r.Owned(claim.Ownership), err
		}); won != 1 {
			t.Fatalf("%d of %d claims were granted, want 1", won, replicas)
		}
	}
}

func testTakeoverRace(t *testing.T, s *suite) {
	key := newKey()
	s.claimed(t, key, newClaim(newOwner(1), short))
	s.awaitExpired(t, key)
	if won := s.race(t, func(_ int, store idempotency.Store) (bool, error) {
		claim := newClaim(newOwner(2), long)
		r, err := store.Begin(s.ctx, key, claim)
		return r.Owned(claim.Ownership), err
	}); won != 1 {
		t.Fatalf("%d of %d takeovers were granted, want 1", won, replicas)
	}
}

func testCompleteRace(t *testing.T, s *suite) {
	for range 3 {
		key, first := newKey(), newClaim(newOwner(1), short)
		s.claimed(t, key, first)
		s.awaitExpired(t, key)
		if won := s.race(t, func(i int, store idempotency.Store) (bool, error) {
			if i%2 == 0 {
				err := store.Complete(s.ctx, key, first.Ownership, done("late"))
				if errors.Is(err, idempotency.ErrClaimLost) {
					return false, nil
				}
				return i == 0 && err == nil, err // All repeats of the one Complete count as one.
			}
			claim := newClaim(newOwner(2), long)
			r, err := store.Begin(s.ctx, key, claim)
			return r.Owned(claim.Ownership), err
		}); won > 1 {
			t.Fatalf("%d of a late Complete and takeovers succeeded, want 1", won)
		}
		if r := s.get(t, key); r.State == idempotency.InFlight && r.Owner == first.Owner {
			t.Fatalf("neither the late Complete nor a takeover was applied: %+v", r)
		}
	}
}
