// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstead/lockstead/pkg/internal/pgname"
)

// column is what a claim needs of one column.
type column struct {
	name  string
	types []string
	// notNull is whether NULL is refused, or has to be accepted.
	notNull bool
	// add is the definition that DDL proposes.
	add string
}

func (c Columns) needs() []column {
	const timestamp = "timestamp with time zone"
	return []column{
		{name: c.RunAt, types: []string{timestamp}, add: "timestamptz"},
		{name: c.LockedUntil, types: []string{timestamp}, add: "timestamptz"},
		{name: c.LockToken, types: []string{"uuid"}, add: "uuid"},
		{name: c.Fence, types: []string{"bigint"}, notNull: true, add: "bigint NOT NULL DEFAULT 0"},
		{name: c.Attempts, types: []string{"integer", "bigint"}, notNull: true, add: "integer NOT NULL DEFAULT 0"},
	}
}

// DDL is the statements that make the table ready for claims: the columns and the index. Rows that the table has already are not due: their
// RunAt is NULL. New ones are due at once, unless they say otherwise.
func (t *Table[T]) DDL() string {
	table := t.relation.quoted()
	var b strings.Builder
	fmt.Fprintf(&b, "ALTER TABLE %s", table)
	for i, c := range t.options.Columns.needs() {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n\tADD COLUMN IF NOT EXISTS %s %s", pgname.Quote(c.name), c.add)
	}
	runAt := pgname.Quote(t.options.Columns.RunAt)
	fmt.Fprintf(&b, ";\nALTER TABLE %s ALTER COLUMN %s SET DEFAULT now();\n", table, runAt)
	fmt.Fprintf(&b, "CREATE INDEX IF NOT EXISTS %s ON %s (%s, %s) WHERE %[3]s IS NOT NULL;\n",
		pgname.Quote(t.relation.indexName()), table, runAt, pgname.QuoteList(t.relation.Key))
	return b.String()
}

const (
	columnsQuery = `SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull FROM pg_catalog.pg_attribute a` +
		` WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped`
	// uniqueQuery gives the columns of each unique index that covers all rows.
	uniqueQuery = `SELECT i.indexrelid::bigint, a.attname::text FROM pg_catalog.pg_index i` +
		` CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)` +
		` JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum` +
		` WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts`
)

// Check compares the table with what claims need. The error is a *SchemaError that names everything that is wrong and the SQL to run, or a
// *StoreError if the server could not be asked. It needs no right but to read the catalogue, and has no timeout of its own: bound ctx.
func (t *Table[T]) Check(ctx context.Context) error {
	found := make(map[string]foundColumn)
	err := t.read(ctx, columnsQuery, func(scan func(...any) error) error {
		var name string
		var c foundColumn
		if err := scan(&name, &c.kind, &c.notNull); err != nil {
			return err
		}
		found[name] = c
		return nil
	})
	if err != nil {
		return err
	}
	unique := make(map[int64][]string)
	err = t.read(ctx, uniqueQuery, func(scan func(...any) error) error {
		var index int64
		var name string
		if err := scan(&index, &name); err != nil {
			return err
		}
		unique[index] = append(unique[index], name)
		return nil
	})
	if err != nil {
		return err
	}
	if problems := t.problems(found, unique); len(problems) > 0 {
		return &SchemaError{Table: t.relation.String(), Problems: problems}
	}
	return nil
}

func (t *Table[T]) read(ctx context.Context, query string, each func(scan func(...any) error) error) error {
	rows, err := t.db.Query(ctx, query, t.relation.quoted())
	if err != nil {
		return t.fault("check", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return t.fault("check", err)
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return t.fault("check", err)
	}
	return nil
}

type foundColumn struct {
	kind    string
	notNull bool
}

// problems compares what was found in the catalogue with what is needed.
func (t *Table[T]) problems(found map[string]foundColumn, unique map[int64][]string) []SchemaProblem {
	if len(found) == 0 {
		return []SchemaProblem{{Problem: "does not exist, or is not in the search_path; create it, or name its schema in Relation.Schema"}}
	}
	alter := "ALTER TABLE " + t.relation.quoted() + " "
	var problems []SchemaProblem
	for _, need := range t.options.Columns.needs() {
		have, ok := found[need.name]
		name := pgname.Quote(need.name)
		switch {
		case !ok:
			problems = append(problems, SchemaProblem{need.name, "is missing", alter + "ADD COLUMN " + name + " " + need.add + ";"})
		case !slices.Contains(need.types, have.kind):
			problems = append(problems, SchemaProblem{
				need.name, fmt.Sprintf("has type %s, not %s", have.kind, strings.Join(need.types, " or ")),
				alter + "ALTER COLUMN " + name + " TYPE " + need.types[0] + ";",
			})
		case need.notNull && !have.notNull:
			problems = append(problems, SchemaProblem{
				need.name, "accepts NULL, which does not count",
				fmt.Sprintf("UPDATE %s SET %s = 0 WHERE %[2]s IS NULL; %sALTER COLUMN %[2]s SET DEFAULT 0, ALTER COLUMN %[2]s SET NOT NULL;", t.relation.quoted(), name, alter),
			})
		case !need.notNull && have.notNull:
			problems = append(problems, SchemaProblem{need.name, "refuses NULL, which says that there is none", alter + "ALTER COLUMN " + name + " DROP NOT NULL;"})
		}
	}
	for _, name := range t.rows.columns {
		if _, ok := found[name]; !ok && !slices.Contains(t.options.Columns.list(), name) {
			problems = append(problems, SchemaProblem{name, fmt.Sprintf("is missing, and the row type %T has it", *new(T)), ""})
		}
	}
	if !t.isUnique(unique) {
		problems = append(problems, SchemaProblem{
			Problem: fmt.Sprintf("has no primary key or unique index on its key %v", t.relation.Key),
			Remedy:  fmt.Sprintf("CREATE UNIQUE INDEX ON %s (%s);", t.relation.quoted(), pgname.QuoteList(t.relation.Key)),
		})
	}
	return problems
}

// isUnique reports whether some unique index has no other columns than the key's.
func (t *Table[T]) isUnique(unique map[int64][]string) bool {
	for _, columns := range unique {
		if !slices.ContainsFunc(columns, func(name string) bool { return !slices.Contains(t.relation.Key, name) }) {
			return true
		}
	}
	return false
}
