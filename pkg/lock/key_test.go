// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"fmt"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock"
)

func ExampleKey() {
	fmt.Println(lock.Key("order", "4711"))
	fmt.Println(lock.Key("file", "a:b"))
	fmt.Println(lock.Key("file", "a", "b"))
	// Output:
	// order:4711
	// file:a%3Ab
	// file:a:b
}

func TestKeyOfNothingIsEmpty(t *testing.T) {
	for _, parts := range [][]string{nil, {""}, {"order", ""}, {"", "4711"}} {
		if got := lock.Key(parts...); got != "" {
			t.Errorf("Key(%q) = %q, want the empty key", parts, got)
		}
	}
}

func FuzzKeyIsUnambiguous(f *testing.F) {
	f.Add("a", "b", "a:b", "c")
	f.Add("a:b", "c", "a", "b:c")
	f.Add("a%3Ab", "c", "a:b", "c")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		one, other := lock.Key(a, b), lock.Key(c, d)
		if one != "" && one == other && (a != c || b != d) {
			t.Errorf("Key(%q, %q) = Key(%q, %q) = %q", a, b, c, d, one)
		}
	})
}
