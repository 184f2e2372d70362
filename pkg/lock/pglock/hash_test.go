// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock_test

import (
	"strings"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
)

// The numbers were computed by a program of another language from the definition. They never change.
func TestKeyHashVectors(t *testing.T) {
	for _, tc := range []struct {
		prefix, name string
		want         int64
	}{
		{"", "", -7003866185702075846},
		{"lk:{payments/billing}:", "order:1", 6113424235088692214},
		{"lk:{payments/billing}:o", "rder:1", 5751731559789051523},
		{"migrations:", "migrations", 2170585467617605580},
		{"ключ", "\x00", -1264112799977334204},
		{"p", strings.Repeat("x", 1024), -6593682045258901031},
	} {
		if got := pglock.KeyHash(driver.Key{Prefix: tc.prefix, Name: tc.name}); got != tc.want {
			t.Errorf("KeyHash(%q, %q) = %d, want %d", tc.prefix, tc.name, got, tc.want)
		}
	}
}
