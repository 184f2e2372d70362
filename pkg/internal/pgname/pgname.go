// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pgname puts names of tables, columns, indexes and channels into SQL for PostgreSQL. A name is given as it is in the catalogue: without
// quotes, upper and lower case differ, and every character that PostgreSQL takes is taken, be it a dot, a blank or a line break.
package pgname

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxBytes is what PostgreSQL keeps of a name. It cuts off the rest with no more than a notice, so two long names may become one.
const MaxBytes = 63

// Check refuses a name that the server would change, or that the caller has quoted already. The error quotes the name and says what is wrong with it.
func Check(name string) error {
	switch {
	case name == "":
		return errors.New("is empty; give the name as it is in the catalogue, without quotes")
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("%q contains NUL, which no PostgreSQL name can", name)
	case strings.ContainsRune(name, '"'):
		return fmt.Errorf("%q contains a quote; give the name as it is in the catalogue, without quotes", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("%q is not UTF-8", name)
	case len(name) > MaxBytes:
		return fmt.Errorf("%q has %d bytes, of which PostgreSQL would keep %d", name, len(name), MaxBytes)
	}
	return nil
}

// Quote is a name as it stands in SQL. The name has to have passed Check.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// QuoteIn is the name of something in a schema; an empty schema is that of the search_path.
func QuoteIn(schema, name string) string {
	if schema == "" {
		return Quote(name)
	}
	return Quote(schema) + "." + Quote(name)
}

// QuoteList is names with commas between them.
func QuoteList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = Quote(name)
	}
	return strings.Join(quoted, ", ")
}

// WithEnd is a name and an end that says what it is for. The name is shortened until both fit, by whole characters.
func WithEnd(name, end string) string {
	for len(name)+len(end) > MaxBytes {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name + end
}
