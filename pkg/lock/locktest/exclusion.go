// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

var exclusionTests = []test{
	{"at most one holder among processes and goroutines", testExclusion},
	{"a held key is refused at once with wait 0", testHeld},
	{"the holder asks again and is refused", testNotReentrant},
	{"other keys stay free", testOtherKeys},
	{"other prefixes stay free", testOtherPrefixes},
	{"V2 an id that begins like the holder's is not the holder's", testIDPrefix},
}

func testExclusion(t *testing.T, s *suite) {
	const processes, goroutines, rounds = 3, 3, 4
	var inside, sections atomic.Int32
	var last lock.Token // guarded by the lock under test
	var work sync.WaitGroup
	for p := range processes {
		c := s.client(t, nil)
		for g := range goroutines {
			work.Go(func() {
				for range rounds {
					h, err := c.TryAcquire(s.ctx, "contended", longTTL, patience)
					if err != nil {
						t.Errorf("process %d goroutine %d: %v", p, g, err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d holders at one time", n)
					}
					if !last.Less(h.Token()) {
						t.Errorf("token %s was granted after %s", h.Token(), last)
					}
					last = h.Token()
					sections.Add(1)
					inside.Add(-1)
					if err := h.Release(s.ctx); err != nil {
						t.Errorf("release: %v", err)
					}
				}
			})
		}
	}
	work.Wait()
	if n := sections.Load(); n != processes*goroutines*rounds {
		t.Errorf("%d sections ran, want %d", n, processes*goroutines*rounds)
	}
}

func testHeld(t *testing.T, s *suite) {
	a, b := s.client(t, &lock.Options{Owner: "replica-a"}), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	_, err := b.TryAcquire(s.ctx, "order:1", longTTL, 0)
	wantError(t, err, lock.ErrHeld)
	held, ok := errors.AsType[*lock.HeldError](err)
	if !ok {
		t.Fatalf("error is a %T, want a *lock.HeldError", err)
	}
	if held.Key != "order:1" || held.Owner != "replica-a" {
		t.Errorf("held error says key %q owner %q, want order:1 and replica-a", held.Key, held.Owner)
	}
	if held.Remaining <= 0 || held.Remaining > longTTL {
		t.Errorf("held error says %s remain, want up to %s", held.Remaining, longTTL)
	}
	mustRelease(t, s.ctx, h)
	mustRelease(t, s.ctx, mustTry(t, s.ctx, b, "order:1", longTTL, 0))
}

func testNotReentrant(t *testing.T, s *suite) {
	c := s.client(t, nil)
	h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
	mustBeHeld(t, s.ctx, c, "order:1")
	_, err := c.TryAcquire(s.ctx, "order:1", longTTL, lock.MinTTL)
	wantError(t, err, lock.ErrHeld)
	if !h.Valid() {
		t.Errorf("the holder's handle ended: %v", h.Err())
	}
	mustRelease(t, s.ctx, h)
}

func testOtherKeys(t *testing.T, s *suite) {
	c := s.client(t, nil)
	for i := range 5 {
		h := mustTry(t, s.ctx, c, fmt.Sprintf("order:%d", i), longTTL, 0)
		defer func() { mustRelease(t, s.ctx, h) }()
	}
}

func testOtherPrefixes(t *testing.T, s *suite) {
	a := s.client(t, nil)
	other := *s
	other.prefix = s.NewPrefix(t)
	b := other.client(t, nil)
	ha := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	hb := mustTry(t, s.ctx, b, "order:1", longTTL, 0)
	mustRelease(t, s.ctx, ha)
	if !hb.Valid() {
		t.Errorf("a release under another prefix ended the handle: %v", hb.Err())
	}
	mustBeHeld(t, s.ctx, b, "order:1")
	mustRelease(t, s.ctx, hb)
}

func testIDPrefix(t *testing.T, s *suite) {
	d := s.NewDriver(t)
	defer closeDriver(t, d)
	key := s.key("order:1")
	id := randomID()
	acquire := func(id, owner string) error {
		_, err := d.Acquire(s.ctx, driver.AcquireRequest{Key: key, ID: id, TTL: s.whole(longTTL), Owner: owner, OnLost: func(error) {}})
		return err
	}
	if err := acquire(id, "worker-10"); err != nil {
		t.Fatal(err)
	}
	similar := id[:31] + string("0123456789abcdef"[(hexValue(id[31])+1)%16])
	wantError(t, acquire(similar, "worker-1"), driver.ErrHeld)
	wantError(t, acquire(similar, "worker-10"), driver.ErrHeld)
	wantError(t, d.Release(s.ctx, driver.ReleaseRequest{Key: key, ID: similar}), driver.ErrNotHolder)
	_, err := d.Renew(s.ctx, driver.RenewRequest{Key: key, ID: similar, TTL: s.whole(longTTL)})
	wantError(t, err, driver.ErrNotHolder)
	if err := d.Release(s.ctx, driver.ReleaseRequest{Key: key, ID: id}); err != nil {
		t.Errorf("release by the holder: %v", err)
	}
}

func closeDriver(t *testing.T, d driver.Driver) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Errorf("close of the driver: %v", err)
	}
}

func hexValue(digit byte) int {
	if digit >= 'a' {
		return int(digit-'a') + 10
	}
	return int(digit - '0')
}
