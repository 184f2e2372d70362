// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"strings"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

func FuzzTokenTextSortsLikeTokens(f *testing.F) {
	f.Add(uint64(0), uint64(9), uint64(0), uint64(10))
	f.Add(uint64(1), uint64(0), uint64(0), ^uint64(0))
	f.Add(^uint64(0), ^uint64(0), uint64(1), uint64(1))
	f.Fuzz(func(t *testing.T, e1, s1, e2, s2 uint64) {
		a, b := driver.Token{Epoch: e1, Sequence: s1}, driver.Token{Epoch: e2, Sequence: s2}
		if got, want := strings.Compare(a.String(), b.String()), a.Compare(b); got != want {
			t.Errorf("%q and %q compare as %d as text, want %d", a, b, got, want)
		}
		if back, err := driver.ParseToken(a.String()); err != nil || back != a {
			t.Errorf("ParseToken(%q) = %v, %v", a, back, err)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add("00000000000000000001.00000000000000000002")
	f.Add("1.2")
	f.Add("+0000000000000000001.-0000000000000000002")
	f.Fuzz(func(t *testing.T, s string) {
		token, err := driver.ParseToken(s)
		if err == nil && token.String() != s {
			t.Errorf("ParseToken(%q) read %q", s, token)
		}
	})
}
