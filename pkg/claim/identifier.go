// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"

	"github.com/lockstead/lockstead/pkg/internal/pgname"
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

// checkIdentifier refuses names that a server would change or could read as something else.
func checkIdentifier(argument, name string) error {
	if err := pgname.Check(name); err != nil {
		return &InvalidError{Argument: argument, Problem: err.Error()}
	}
	return nil
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

func (r Relation) quoted() string { return pgname.QuoteIn(r.Schema, r.Name) }

// String is for messages.
func (r Relation) String() string {
	if r.Schema == "" {
		return r.Name
	}
	return r.Schema + "." + r.Name
}

// indexName is the name of the index that DDL proposes.
func (r Relation) indexName() string { return pgname.WithEnd(r.Name, "_claim_idx") }
