// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Relation says which table holds the rows.
type Relation struct {
	// Schema is the table's schema. Defaults to what the connection's search_path finds.
	Schema string
	// Name is the table's name, without the schema: a dot is part of the name. Required.
	Name string
	// Key is the columns that identify a row: a primary key, or columns with a unique index and no NULL. Required.
	Key []string
}

// Columns names the columns that a claim is kept in. See Table.DDL for their types.
type Columns struct {
	// RunAt says when the row is due, on the server's clock. NULL is a row that is done, or not to be run. Defaults to "run_at".
	RunAt string
	// LockedUntil is the end of the present claim. Defaults to "locked_until".
	LockedUntil string
	// LockToken is random and names the present claim: the predicate of whatever extends or ends it. Defaults to "lock_token".
	LockToken string
	// Fence counts the claims of the row and only grows. Defaults to "fence".
	Fence string
	// Attempts counts the claims since the row was last completed or rescheduled. Defaults to "attempts".
	Attempts string
}

func (c Columns) resolve() Columns {
	for _, d := range []struct {
		name  *string
		usual string
	}{
		{&c.RunAt, "run_at"},
		{&c.LockedUntil, "locked_until"},
		{&c.LockToken, "lock_token"},
		{&c.Fence, "fence"},
		{&c.Attempts, "attempts"},
	} {
		if *d.name == "" {
			*d.name = d.usual
		}
	}
	return c
}

// list is the columns in the order in which they are checked and printed.
func (c Columns) list() []string {
	return []string{c.RunAt, c.LockedUntil, c.LockToken, c.Fence, c.Attempts}
}

// maxIdentifierBytes is what PostgreSQL keeps of a name; it cuts off the rest with a notice, and two long names may become one.
const maxIdentifierBytes = 63

// checkIdentifier refuses names that a server would change or could read as something else.
func checkIdentifier(argument, name string) error {
	var problem string
	switch {
	case name == "":
		problem = "is empty; give the name as it is in the catalogue, without quotes"
	case strings.ContainsRune(name, 0):
		problem = "contains NUL, which no PostgreSQL name can"
	case strings.ContainsRune(name, '"'):
		problem = "contains a quote; give the name as it is in the catalogue, without quotes"
	case !utf8.ValidString(name):
		problem = "is not UTF-8"
	case len(name) > maxIdentifierBytes:
		problem = fmt.Sprintf("has %d bytes, of which PostgreSQL would keep %d", len(name), maxIdentifierBytes)
	default:
		return nil
	}
	return &InvalidError{Argument: argument, Problem: fmt.Sprintf("%q %s", name, problem)}
}

// check refuses what cannot name a table with these columns.
func (r Relation) check(columns Columns) error {
	if r.Schema != "" {
		if err := checkIdentifier("Relation.Schema", r.Schema); err != nil {
			return err
		}
	}
	if err := checkIdentifier("Relation.Name", r.Name); err != nil {
		return err
	}
	if len(r.Key) == 0 {
		return &InvalidError{Argument: "Relation.Key", Problem: "is empty; name the columns of the table's primary key"}
	}
	seen := make(map[string]string)
	for _, c := range []struct {
		argument string
		names    []string
	}{
		{"Relation.Key", r.Key},
		{"Columns", columns.list()},
	} {
		for _, name := range c.names {
			if err := checkIdentifier(c.argument, name); err != nil {
				return err
			}
			if before, ok := seen[name]; ok {
				return &InvalidError{Argument: c.argument, Problem: fmt.Sprintf("column %q is named twice (also in %s); each needs a column of its own", name, before)}
			}
			seen[name] = c.argument
		}
	}
	return nil
}

func (r Relation) quoted() string {
	if r.Schema == "" {
		return quote(r.Name)
	}
	return pgx.Identifier{r.Schema, r.Name}.Sanitize()
}

// String is for messages.
func (r Relation) String() string {
	if r.Schema == "" {
		return r.Name
	}
	return r.Schema + "." + r.Name
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// indexName is the name of the index that DDL proposes, cut where PostgreSQL would cut it, but with its end kept.
func (r Relation) indexName() string {
	const end = "_claim_idx"
	name := r.Name
	for len(name)+len(end) > maxIdentifierBytes {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name + end
}
