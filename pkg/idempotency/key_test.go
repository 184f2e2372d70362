// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

func TestKeySyntax(t *testing.T) {
	for name, tc := range map[string]struct {
		lines []string
		want  string // "" if it is refused
	}{
		"quoted":                          {[]string{`"8e03978e-40d5-43dd-bc93-6894a57f9324"`}, "8e03978e-40d5-43dd-bc93-6894a57f9324"},
		"bare is equal":                   {[]string{"8e03978e-40d5-43dd-bc93-6894a57f9324"}, "8e03978e-40d5-43dd-bc93-6894a57f9324"},
		"spaces around":                   {[]string{" \t\"a\" "}, "a"},
		"spaces within quotes":            {[]string{`"a b"`}, "a b"},
		"escaped quote and backslash":     {[]string{`"a\"b\\c"`}, `a"b\c`},
		"255 characters":                  {[]string{strings.Repeat("k", 255)}, strings.Repeat("k", 255)},
		"255 characters and escapes":      {[]string{`"` + strings.Repeat(`\"`, 255) + `"`}, strings.Repeat(`"`, 255)},
		"256 characters":                  {[]string{strings.Repeat("k", 256)}, ""},
		"256 quoted characters":           {[]string{`"` + strings.Repeat("k", 256) + `"`}, ""},
		"empty within quotes":             {[]string{`""`}, ""},
		"no closing quote":                {[]string{`"abc`}, ""},
		"one quote":                       {[]string{`"`}, ""},
		"a quote at the end":              {[]string{`abc"`}, ""},
		"parameters":                      {[]string{`"abc";v=1`}, ""},
		"two joined by a proxy":           {[]string{`"a", "b"`}, ""},
		"two bare ones joined by a proxy": {[]string{"a, b"}, ""},
		"a space without quotes":          {[]string{"a b"}, ""},
		"a bad escape":                    {[]string{`"a\n"`}, ""},
		"an escape at the end":            {[]string{`"a\`}, ""},
		"a control character":             {[]string{"\"a\x01\""}, ""},
		"not ASCII":                       {[]string{"schlüssel"}, ""},
		"two lines":                       {[]string{"a", "a"}, ""},
		"none":                            {nil, ""},
	} {
		got, err := idempotency.ParseKey(tc.lines)
		var refused *idempotency.KeyError
		switch {
		case tc.want != "" && (err != nil || got != tc.want):
			t.Errorf("%s: key is %q, %v, want %q", name, got, err, tc.want)
		case tc.want == "" && !errors.As(err, &refused):
			t.Errorf("%s: key is %q, %v, want a *KeyError", name, got, err)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{"", "a", `"a"`, `"a\"b"`, `"\`, "a,b", strings.Repeat("x", 256), "\x00", "\"\xff\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := idempotency.ParseKey([]string{value})
		if err != nil {
			if key != "" {
				t.Errorf("a refused value has the key %q", key)
			}
			return
		}
		if len(key) < 1 || len(key) > idempotency.MaxKeyLength {
			t.Errorf("key has %d characters", len(key))
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := idempotency.ParseKey([]string{quoted}); err != nil || again != key {
			t.Errorf("%s is read as %q, %v, want %q", quoted, again, err, key)
		}
	})
}

func TestBareAndQuotedKeyAreOne(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{}, counting(&calls))
	r := order()
	first := r.send(t, server)
	r.key = `"k1"`
	if second := r.send(t, server); !second.replayed() || second.body != first.body || calls.Load() != 1 {
		t.Errorf("the quoted key got %+v after %d calls, want a replay of %+v", second, calls.Load(), first)
	}
}

func TestMalformedKeysAreRefusedBeforeAnything(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{}, counting(&calls))
	for name, lines := range map[string][]string{"empty within quotes": {`""`}, "repeated": {"a", "b"}, "repeated blanks": {"", ""}, "too long": {strings.Repeat("k", 256)}} {
		r := order()
		r.key, r.header = "", http.Header{"Idempotency-Key": lines}
		t.Run(name, func(t *testing.T) { r.send(t, server).want(t, http.StatusBadRequest, idempotency.CodeKeyInvalid) })
	}
	if calls.Load() != 0 || f.store.calls() != 0 {
		t.Errorf("%d calls of the handler and %d of the store, want none", calls.Load(), f.store.calls())
	}
}
