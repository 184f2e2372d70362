// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKeyBytes is the length of the longest key.
const MaxKeyBytes = 1024

var keyEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

// Key joins the parts of a key with ":", by convention an entity type and an entity id: Key("order", id). A ":" or "%" inside a
// part is escaped, so that different parts never make the same key. Case is kept. If there is no part, or one of them is
// empty, the result is the empty key, which every call refuses.
//
// Keys are readable by people who can read the store: hash a secret before it becomes part of a key.
func Key(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		if part == "" {
			return ""
		}
		escaped[i] = keyEscaper.Replace(part)
	}
	return strings.Join(escaped, ":")
}

func validateKey(key string) error {
	switch {
	case key == "":
		return &InvalidError{Argument: "key", Problem: "is empty, or was joined from an empty part"}
	case len(key) > MaxKeyBytes:
		return &InvalidError{Argument: "key", Problem: fmt.Sprintf("has %d bytes, the maximum is %d: hash the long part", len(key), MaxKeyBytes)}
	case !utf8.ValidString(key):
		return &InvalidError{Argument: "key", Problem: "is not valid UTF-8: encode binary parts, for example as hexadecimal"}
	}
	return nil
}
