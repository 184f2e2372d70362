// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"strings"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock"
)

var keyTests = []test{
	{"odd keys are locks of their own", testOddKeys},
	{"empty and too long keys are refused", testRefusedKeys},
}

// oddKeys are pairwise different, and many differ only in what a careless mapping folds together.
func oddKeys() []string {
	return []string{
		"a", "A", "a ", " a", "a/b", "a//b", "/a", "a/", "a:b", "a::b", ":", "a%3Ab", "a b", "a\tb", "a\nb",
		"*", "a*", "a?", "[a]", "a[b", `a\`, `a\\`, "{a}", "{}", "}{", "!epoch", "!seq", "lock:a", "free:a",
		"ключ", "鍵", "é", "e\u0301", "\u202e", "🔒", "\x00", "a\x00", "..", ".", "-", "lk-a", "'", `"`, "$(a)", "`a`", "<a>",
		strings.Repeat("x", lock.MaxKeyBytes), strings.Repeat("x", lock.MaxKeyBytes-1), strings.Repeat("é", lock.MaxKeyBytes/2),
	}
}

// testOddKeys holds all of them at once: two that met would show as held.
func testOddKeys(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	handles := make(map[string]*lock.Handle)
	for _, key := range oddKeys() {
		handles[key] = mustTry(t, s.ctx, a, key, longTTL, 0)
	}
	for key, h := range handles {
		holding, err := b.Inspect(s.ctx, key)
		if err != nil {
			t.Errorf("inspect of %q: %v", key, err)
		}
		if holding.ID != h.ID() {
			t.Errorf("inspect of %q says id %q, want %q", key, holding.ID, h.ID())
		}
	}
	for key, h := range handles {
		mustRelease(t, s.ctx, h)
		mustRelease(t, s.ctx, mustTry(t, s.ctx, b, key, longTTL, 0))
	}
}

func testRefusedKeys(t *testing.T, s *suite) {
	c := s.client(t, nil)
	for _, key := range []string{"", strings.Repeat("x", lock.MaxKeyBytes+1), "a\xff", lock.Key(), lock.Key("order", "")} {
		_, err := c.TryAcquire(s.ctx, key, longTTL, 0)
		wantError(t, err, lock.ErrInvalid)
		_, err = c.Inspect(s.ctx, key)
		wantError(t, err, lock.ErrInvalid)
	}
}
