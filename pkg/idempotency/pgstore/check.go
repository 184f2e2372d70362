// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// column is one of the table, with its type as PostgreSQL writes it.
type column struct{ name, dataType, definition string }

func required() []column {
	return []column{
		{"key", "bytea", "bytea NOT NULL PRIMARY KEY"},
		{"state", "smallint", "smallint NOT NULL"},
		{"owner", "text", "text NOT NULL"},
		{"token", "text", `text COLLATE "C" NOT NULL`},
		{"fingerprint", "bytea", "bytea NOT NULL"},
		{"lease_until", "timestamp with time zone", "timestamptz NOT NULL"},
		{"expires_at", "timestamp with time zone", "timestamptz NOT NULL"},
		{"response", "bytea", "bytea"},
	}
}

// SchemaError says what is wrong with the table, and how to put it right.
type SchemaError struct {
	// Table is as the Options name it.
	Table string
	// Problems are what is wrong, one a line.
	Problems []string
	// Remedy is the SQL to run. Records that are in the way of a new column can be deleted: DELETE FROM the table first.
	Remedy string
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("pgstore: table %s: %s; run:\n%s", e.Table, strings.Join(e.Problems, ", "), e.Remedy)
}

// Check tells whether the table is as the store needs it. The error is a *SchemaError with the SQL to run, or a fault of the server.
func (s *Store) Check(ctx context.Context) error {
	rows, err := s.db.Query(ctx, `
SELECT a.attname, format_type(a.atttypid, NULL), coalesce(c.collname, ''), a.attname = 'key' AND EXISTS (
         SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped`, s.table)
	if err != nil {
		return s.fault(err)
	}
	type found struct {
		dataType, collation string
		unique              bool
	}
	have := map[string]found{}
	var name string
	var f found
	if _, err := pgx.ForEachRow(rows, []any{&name, &f.dataType, &f.collation, &f.unique}, func() error {
		have[name] = f
		return nil
	}); err != nil {
		return s.fault(err)
	}
	if len(have) == 0 {
		return &SchemaError{Table: s.table, Problems: []string{"it does not exist, or the role cannot see it"}, Remedy: Schema(s.table)}
	}
	wrong := &SchemaError{Table: s.table}
	var remedies []string
	add := func(remedy, problem string, args ...any) {
		wrong.Problems = append(wrong.Problems, fmt.Sprintf(problem, args...))
		remedies = append(remedies, "ALTER TABLE "+s.table+" "+remedy+";")
	}
	for _, c := range required() {
		got, ok := have[c.name]
		switch {
		case !ok:
			add("ADD COLUMN "+c.name+" "+c.definition, "column %s is missing", c.name)
		case got.dataType != c.dataType:
			add("DROP COLUMN "+c.name+", ADD COLUMN "+c.name+" "+c.definition, "column %s is %s, want %s", c.name, got.dataType, c.dataType)
		case c.name == "token" && got.collation != "C":
			add(`ALTER COLUMN token TYPE text COLLATE "C"`, "column token does not sort as bytes do")
		case c.name == "key" && !got.unique:
			add("ADD PRIMARY KEY (key)", "column key is not unique")
		}
	}
	if len(wrong.Problems) == 0 {
		return nil
	}
	wrong.Remedy = strings.Join(remedies, "\n")
	return wrong
}
