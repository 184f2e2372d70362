// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// listTests are those of the drivers that can list the held keys, and for all others that they cannot.
func listTests(h Harness) []test {
	if h.NoList {
		return []test{{"the driver cannot list", func(t *testing.T, s *suite) {
			if _, ok := s.NewDriver(t).(driver.Lister); ok {
				t.Error("the driver is a driver.Lister: take NoList out of the Harness")
			}
		}}}
	}
	return []test{
		{"a list has what is held by anybody and nothing else", testList},
		{"a list has keys of any content", testListContent},
		{"a list follows renewals and ends with the TTL", testListExpiry},
		{"a list comes in pages that have every key", testListPages},
	}
}

// forceTests are those of the drivers that can take a lock away, and for all others that they cannot.
func forceTests(h Harness) []test {
	if h.NoForceRelease {
		return []test{{"the driver cannot take a lock away", func(t *testing.T, s *suite) {
			if _, ok := s.NewDriver(t).(driver.ForceReleaser); ok {
				t.Error("the driver is a driver.ForceReleaser: take NoForceRelease out of the Harness")
			}
		}}}
	}
	return []test{
		{"a forced release fences the holder and frees the key", testForce},
		{"a forced release wakes who waits", testForceWakes},
		{"a forced release on a condition leaves the next holder alone", testForceCondition},
		{"a forced release of a free key is told", testForceFree},
	}
}

// listed is what the client lists, by key.
func listed(t *testing.T, s *suite, c *lock.Client) map[string]driver.Holding {
	t.Helper()
	all := map[string]driver.Holding{}
	for held, err := range c.List(s.ctx) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if _, twice := all[held.Key]; twice {
			t.Errorf("key %q was listed twice", held.Key)
		}
		all[held.Key] = held.Holding
	}
	return all
}

func wantListed(t *testing.T, s *suite, c *lock.Client, want ...string) map[string]driver.Holding {
	t.Helper()
	got := listed(t, s, c)
	slices.Sort(want)
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
		t.Fatalf("the list has %q, want %q", keys, want)
	}
	return got
}

func wantHolding(t *testing.T, got driver.Holding, h *lock.Handle, owner string) {
	t.Helper()
	if !got.Held || got.ID != h.ID() || got.Token != h.Token() || got.Owner != owner {
		t.Errorf("key %q: the store tells of %+v, want acquisition %s of %q with token %s", h.Key(), got, h.ID(), owner, h.Token())
	}
	if got.Remaining < 0 || got.Remaining > h.TTL() {
		t.Errorf("key %q has %s left of a TTL of %s", h.Key(), got.Remaining, h.TTL())
	}
}

func testList(t *testing.T, s *suite) {
	a, b := s.client(t, &lock.Options{Owner: "replica-a"}), s.client(t, &lock.Options{Owner: "replica-b"})
	wantListed(t, s, b)
	one, two := mustTry(t, s.ctx, a, "order:1", longTTL, 0), mustTry(t, s.ctx, b, "order:2", longTTL, 0)
	// The same key of another lock namespace is not of this one.
	other := *s
	other.prefix = s.NewPrefix(t)
	elsewhere := mustTry(t, s.ctx, other.client(t, nil), "order:3", longTTL, 0)

	got := wantListed(t, s, b, "order:1", "order:2")
	wantHolding(t, got["order:1"], one, "replica-a")
	wantHolding(t, got["order:2"], two, "replica-b")
	inspected, err := b.Inspect(s.ctx, "order:1")
	if err != nil || !inspected.Since.Equal(got["order:1"].Since) {
		t.Errorf("an inspection tells of %+v, %v, and the list of %+v", inspected, err, got["order:1"])
	}
	mustRelease(t, s.ctx, one)
	wantListed(t, s, b, "order:2")
	mustRelease(t, s.ctx, two)
	wantListed(t, s, b)
	mustRelease(t, s.ctx, elsewhere)
}

func testListContent(t *testing.T, s *suite) {
	c := s.client(t, nil)
	keys := []string{"a b", "lock:a", "!held", "*", "{}", "é", "a\nb", "42", "-inf", "(1"}
	var held []*lock.Handle
	for _, key := range keys {
		held = append(held, mustTry(t, s.ctx, c, key, longTTL, 0))
	}
	wantListed(t, s, c, keys...)
	for _, h := range held {
		mustRelease(t, s.ctx, h)
	}
}

func testListExpiry(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	long := mustTry(t, s.ctx, a, "order:1", s.short(), 0)
	if err := long.Renew(s.ctx, longTTL); err != nil {
		t.Fatal(err)
	}
	mustTry(t, s.ctx, a, "order:2", s.short(), 0)
	// The first TTL of both is over once somebody else could take the second.
	next := mustTry(t, s.ctx, b, "order:2", s.short(), patience)
	await(t, "the end of the second holder's TTL", next.Context().Done())
	last := mustTry(t, s.ctx, a, "order:2", longTTL, patience)
	wantHolding(t, wantListed(t, s, b, "order:1", "order:2")["order:2"], last, last.Owner())
	mustRelease(t, s.ctx, last)
	wantHolding(t, wantListed(t, s, b, "order:1")["order:1"], long, long.Owner())
	mustRelease(t, s.ctx, long)
}

func testListPages(t *testing.T, s *suite) {
	d := s.NewDriver(t)
	defer closeDriver(t, d)
	lister := d.(driver.Lister)
	const keys, limit = 7, 3
	ids := map[string]string{}
	for i := range keys {
		req := s.acquireRequest("owner", longTTL)
		req.Key.Name = fmt.Sprintf("order:%d", i)
		mustGrant(t, driver.Grant{}, second(d.Acquire(s.ctx, req)))
		ids[req.Key.Name] = req.ID
	}
	got := map[string]string{}
	for cursor, pages := "", 0; ; pages++ {
		page, err := lister.List(s.ctx, driver.ListRequest{Prefix: s.prefix, Cursor: cursor, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Held) > limit {
			t.Errorf("a page has %d keys, want at most %d", len(page.Held), limit)
		}
		for _, held := range page.Held {
			got[held.Name] = held.Holding.ID
			// What is freed meanwhile does not hide what is held all the while.
			if pages == 0 {
				if err := d.Release(s.ctx, driver.ReleaseRequest{Key: s.key(held.Name), ID: held.Holding.ID}); err != nil {
					t.Error(err)
				}
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		if pages > keys {
			t.Fatal("the pages do not end")
		}
	}
	if !maps.Equal(got, ids) {
		t.Errorf("the pages have %v, want %v", got, ids)
	}
	for name, id := range ids {
		_ = d.Release(s.ctx, driver.ReleaseRequest{Key: s.key(name), ID: id})
	}
}

func second[T any](_ T, err error) error { return err }

func testForce(t *testing.T, s *suite) {
	a, b := s.client(t, &lock.Options{Owner: "replica-a"}), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	forced, err := b.ForceRelease(s.ctx, "order:1", "")
	if err != nil {
		t.Fatalf("forced release: %v", err)
	}
	wantHolding(t, forced.Holding, h, "replica-a")
	if !forced.Fence.IsZero() && !h.Token().Less(forced.Fence) {
		t.Errorf("the fence %s is not greater than the holder's token %s", forced.Fence, h.Token())
	}
	next := mustTry(t, s.ctx, b, "order:1", longTTL, patience)
	if !h.Token().Less(next.Token()) || next.Token().Less(forced.Fence) {
		t.Errorf("the next token is %s, after %s and the fence %s", next.Token(), h.Token(), forced.Fence)
	}
	wantError(t, h.Renew(s.ctx, longTTL), lock.ErrLost)
	wantLost(t, h, lock.LossNotHolder, lock.LossStoreChanged)
	wantError(t, h.Release(s.ctx), lock.ErrLost)
	if !next.Valid() {
		t.Errorf("the old holder ended the next one: %v", next.Err())
	}
	mustBeHeld(t, s.ctx, a, "order:1")
	mustRelease(t, s.ctx, next)
}

// testForceWakes subscribes first, so that nothing but the notification of the forced release can wake it.
func testForceWakes(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	d := s.NewDriver(t)
	defer closeDriver(t, d)
	wake := make(<-chan struct{})
	if !s.NoNotification {
		subscription, err := d.(driver.Waiter).Subscribe(s.ctx, s.key("order:1"))
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()
		// What the start of the subscription itself brought.
		select {
		case <-subscription.Wake():
		default:
		}
		wake = subscription.Wake()
	}
	if _, err := b.ForceRelease(s.ctx, "order:1", h.ID()); err != nil {
		t.Fatal(err)
	}
	if !s.NoNotification {
		await(t, "the notification", wake)
	}
	mustRelease(t, s.ctx, mustTry(t, s.ctx, b, "order:1", longTTL, patience))
	wantError(t, h.Release(s.ctx), lock.ErrLost)
}

func testForceCondition(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	seen := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	mustRelease(t, s.ctx, seen)
	next := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	_, err := b.ForceRelease(s.ctx, "order:1", seen.ID())
	wantError(t, err, lock.ErrNotHeld)
	if err := next.Renew(s.ctx, longTTL); err != nil {
		t.Errorf("the next holder lost its lock: %v", err)
	}
	if forced, err := b.ForceRelease(s.ctx, "order:1", next.ID()); err != nil || forced.Holding.ID != next.ID() {
		t.Errorf("forced release of the one that holds: %+v, %v", forced, err)
	}
	wantError(t, next.Release(s.ctx), lock.ErrLost)
}

func testForceFree(t *testing.T, s *suite) {
	c := s.client(t, nil)
	_, err := c.ForceRelease(s.ctx, "order:1", "")
	wantError(t, err, lock.ErrNotHeld)
	mustRelease(t, s.ctx, mustTry(t, s.ctx, c, "order:1", longTTL, 0))
	_, err = c.ForceRelease(s.ctx, "order:1", "")
	wantError(t, err, lock.ErrNotHeld)
	mustRelease(t, s.ctx, mustTry(t, s.ctx, c, "order:1", longTTL, 0))
}
