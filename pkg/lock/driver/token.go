// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Token is a fencing token. The tokens of one key only grow, so a resource that remembers the greatest token that it has seen and
// refuses smaller ones is not written by a stale holder after a newer one. Tokens of different keys are not comparable.
// The zero Token is less than every granted one.
type Token struct {
	// Epoch grows whenever the store may have lost what it knew.
	Epoch uint64
	// Sequence grows with every grant of an epoch.
	Sequence uint64
}

// Compare returns -1, 0 or +1 as t is less than, equal to or greater than u.
func (t Token) Compare(u Token) int {
	return cmp.Or(cmp.Compare(t.Epoch, u.Epoch), cmp.Compare(t.Sequence, u.Sequence))
}

// Less reports whether t was granted before u.
func (t Token) Less(u Token) bool { return t.Compare(u) < 0 }

// IsZero reports whether t is the zero Token, which is never granted.
func (t Token) IsZero() bool { return t == Token{} }

// String is 41 characters of fixed width that sort as text in the order of the tokens: both numbers with 20 digits,
// joined by a point.
func (t Token) String() string { return fmt.Sprintf("%020d.%020d", t.Epoch, t.Sequence) }

// MarshalText gives String.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := ParseToken(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

// ParseToken reads the form that Token.String writes, and nothing else: a shortened form would not sort as text.
func ParseToken(s string) (Token, error) {
	epoch, sequence, ok := strings.Cut(s, ".")
	if !ok || len(epoch) != 20 || len(sequence) != 20 {
		return Token{}, fmt.Errorf("fencing token %q: want two numbers of 20 digits joined by a point", s)
	}
	e, err := strconv.ParseUint(epoch, 10, 64)
	if err != nil {
		return Token{}, fmt.Errorf("fencing token %q: epoch: %w", s, err)
	}
	n, err := strconv.ParseUint(sequence, 10, 64)
	if err != nil {
		return Token{}, fmt.Errorf("fencing token %q: sequence: %w", s, err)
	}
	return Token{Epoch: e, Sequence: n}, nil
}
