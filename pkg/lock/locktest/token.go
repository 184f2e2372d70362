// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"testing"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

var tokenTests = []test{
	{"tokens grow over releases and processes", testTokensGrow},
	{"tokens grow over expiry", testTokensGrowOverExpiry},
	{"tokens grow over delete and re-create", testTokensGrowOverDelete},
	{"a token printed and read back is the same and sorts as text", testTokenText},
	{"inspect tells holder and token", testInspect},
}

type growing struct {
	t    *testing.T
	last driver.Token
}

func (g *growing) see(h *lock.Handle) {
	g.t.Helper()
	if !g.last.Less(h.Token()) {
		g.t.Errorf("token %s was granted after %s", h.Token(), g.last)
	}
	g.last = h.Token()
}

func testTokensGrow(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	seen := growing{t: t}
	for range 5 {
		for _, c := range []*lock.Client{a, b} {
			h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
			seen.see(h)
			mustRelease(t, s.ctx, h)
		}
	}
}

func testTokensGrowOverExpiry(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	seen := growing{t: t}
	seen.see(mustTry(t, s.ctx, a, "order:1", s.short(), 0))
	h := mustTry(t, s.ctx, b, "order:1", longTTL, patience)
	seen.see(h)
	mustRelease(t, s.ctx, h)
}

func testTokensGrowOverDelete(t *testing.T, s *suite) {
	a, b := s.client(t, nil), s.client(t, nil)
	seen := growing{t: t}
	for range 3 {
		seen.see(mustTry(t, s.ctx, a, "order:1", longTTL, patience))
		s.Remove(t, s.key("order:1"))
		h := mustTry(t, s.ctx, b, "order:1", longTTL, patience)
		seen.see(h)
		mustRelease(t, s.ctx, h)
	}
}

func testTokenText(t *testing.T, s *suite) {
	c := s.client(t, nil)
	var texts []string
	for range 12 {
		h := mustTry(t, s.ctx, c, "order:1", longTTL, 0)
		text := h.Token().String()
		back, err := driver.ParseToken(text)
		if err != nil || back != h.Token() {
			t.Errorf("ParseToken(%q) = %v, %v; want %v", text, back, err, h.Token())
		}
		if len(texts) > 0 && texts[len(texts)-1] >= text {
			t.Errorf("%q does not sort behind %q", text, texts[len(texts)-1])
		}
		texts = append(texts, text)
		mustRelease(t, s.ctx, h)
	}
}

func testInspect(t *testing.T, s *suite) {
	a, b := s.client(t, &lock.Options{Owner: "pod-a/payments/pid-7"}), s.client(t, nil)
	h := mustTry(t, s.ctx, a, "order:1", longTTL, 0)
	got, err := b.Inspect(s.ctx, "order:1")
	if err != nil {
		t.Fatal(err)
	}
	if !got.Held || got.ID != h.ID() || got.Owner != "pod-a/payments/pid-7" || got.Token != h.Token() {
		t.Errorf("inspect says %+v, want the holder %s with token %s", got, h.ID(), h.Token())
	}
	if got.Remaining <= 0 || got.Remaining > longTTL {
		t.Errorf("inspect says %s remain, want up to %s", got.Remaining, longTTL)
	}
	mustRelease(t, s.ctx, h)
	got, err = b.Inspect(s.ctx, "order:1")
	if err != nil {
		t.Fatal(err)
	}
	if got.Held {
		t.Errorf("inspect says %+v after the release", got)
	}
}
