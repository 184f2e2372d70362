// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"fmt"
	"strings"
)

// MaxKeyLength is the length of the longest client key, without quotes and escapes.
const MaxKeyLength = 255

// KeyError refuses the value of an Idempotency-Key header.
type KeyError struct {
	// Problem says what is wrong and what is accepted. It does not repeat the value.
	Problem string
}

func (e *KeyError) Error() string { return "idempotency key: " + e.Problem }

// present reports whether a request has a key, good or bad: a header that is absent or blank is none.
func present(values []string) bool {
	return len(values) > 1 || len(values) == 1 && strings.Trim(values[0], " \t") != ""
}

// ParseKey reads the field lines of an Idempotency-Key header. The key is an RFC 9651 String, such as "8e03978e", or the same without quotes, which is equal
// to it. Quotes and escapes are not part of the key. Parameters are refused, as none is defined. The error is a *KeyError.
func ParseKey(values []string) (string, error) {
	switch {
	case len(values) == 0:
		return "", &KeyError{Problem: "is missing"}
	case len(values) > 1:
		return "", &KeyError{Problem: fmt.Sprintf("the header was sent %d times: send it once", len(values))}
	}
	value := strings.Trim(values[0], " \t")
	var key string
	var err error
	if strings.HasPrefix(value, `"`) {
		key, err = parseQuoted(value)
	} else {
		key, err = parseBare(value)
	}
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "", &KeyError{Problem: "is empty: send between 1 and 255 characters, for example a UUID"}
	case len(key) > MaxKeyLength:
		return "", &KeyError{Problem: fmt.Sprintf("has %d characters, the maximum is %d", len(key), MaxKeyLength)}
	}
	return key, nil
}

func parseQuoted(value string) (string, error) {
	if !strings.Contains(value, `\`) && len(value) >= 2 && strings.IndexByte(value[1:], '"') == len(value)-2 {
		key := value[1 : len(value)-1]
		return key, checkBytes(key, 0x20)
	}
	var key strings.Builder
	for i := 1; i < len(value); i++ {
		switch c := value[i]; c {
		case '"':
			if i != len(value)-1 {
				return "", &KeyError{Problem: "something follows the closing quote: send one quoted string without parameters"}
			}
			return key.String(), checkBytes(key.String(), 0x20)
		case '\\':
			i++
			if i == len(value) || value[i] != '"' && value[i] != '\\' {
				return "", &KeyError{Problem: `a backslash may only stand before " or \`}
			}
			key.WriteByte(value[i])
		default:
			key.WriteByte(c)
		}
	}
	return "", &KeyError{Problem: "the closing quote is missing"}
}

func parseBare(value string) (string, error) {
	if strings.ContainsAny(value, `",;\`) {
		return "", &KeyError{Problem: `without quotes it must not have any of " , ; \ (two headers joined by a proxy look like this): send one quoted string`}
	}
	return value, checkBytes(value, 0x21)
}

// checkBytes refuses what is below lowest or not ASCII.
func checkBytes(key string, lowest byte) error {
	for i := range len(key) {
		if key[i] < lowest || key[i] > 0x7e {
			return &KeyError{Problem: fmt.Sprintf("byte %d is not printable ASCII, or is a space without quotes around the key", i+1)}
		}
	}
	return nil
}
