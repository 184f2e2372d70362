// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fence writes to a PostgreSQL table under the fencing token of a lock, so that a holder that has lost its lock, and does not know it yet, cannot
// overwrite what a later holder wrote. Package redisfence does the same for Redis.
//
// The table remembers the greatest token that wrote each row, in a column of its own:
//
//	ALTER TABLE orders ADD COLUMN fence text COLLATE "C" NOT NULL DEFAULT '';
//
// The column has the text of the token (lock.Token.String), which has a fixed width and sorts as the tokens do. It is not a pair of bigint, since
// both numbers of a token use all 64 bits. The empty text is less than every token. Every statement that changes the row has to be guarded: one that is not
// guards nobody.
//
// The guard is in the WHERE clause, which PostgreSQL checks again when it has waited for another writer of the row, so it holds at every isolation level
// without a lock of the row. Several writes under one token are allowed. Tokens of different keys are not comparable: guard a row by one key.
package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstead/lockstead/pkg/internal/pgname"
	"github.com/lockstead/lockstead/pkg/lock"
)

// ErrStale says that a later holder of the lock has written, or that the row is not there. Nothing was changed. The error is a *StaleError. Stop the work: the
// lock is lost.
var ErrStale = errors.New("write under a stale fencing token")

// StaleError says which write was refused. It matches ErrStale.
type StaleError struct {
	// What names the table, or the key of Redis.
	What string
	// Token is that of the refused writer.
	Token lock.Token
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("write to %s under fencing token %s was refused: a later holder has written, or there is no such row", e.What, e.Token)
}

// Is matches ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Execer runs a statement: *sql.DB, *sql.Tx, *sql.Conn with a driver for PostgreSQL, or what Pgx makes.
type Execer interface {
	// ExecContext is that of database/sql; its result tells how many rows were changed.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// PgxExecer is a *pgxpool.Pool, *pgx.Conn, *pgxpool.Conn or pgx.Tx, without a dependency on pgx.
type PgxExecer[Tag interface{ RowsAffected() int64 }] interface {
	// Exec is that of pgx; the tag tells how many rows were changed.
	Exec(ctx context.Context, sql string, args ...any) (Tag, error)
}

// Pgx makes an Execer of what pgx gives; the compiler finds Tag.
func Pgx[Tag interface{ RowsAffected() int64 }](q PgxExecer[Tag]) Execer { return pgxExecer[Tag]{q} }

type pgxExecer[Tag interface{ RowsAffected() int64 }] struct{ q PgxExecer[Tag] }

func (p pgxExecer[Tag]) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := p.q.Exec(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(tag.RowsAffected()), nil
}

// Update is a guarded UPDATE of rows of one table. It is a value, safe for concurrent use. Names are those of the catalogue, without quotes, so upper and
// lower case differ, and whatever PostgreSQL takes is taken and quoted; a name has up to 63 bytes. A name with a '"' or NUL in it is refused.
type Update struct {
	// Table is the table, or "<schema>.<table>": a dot is no part of either name. Without a schema the connection's search_path finds the table.
	Table string
	// Set are the columns to be written, at least one.
	Set []string
	// Key are the columns that find the rows by equality, at least one.
	Key []string
	// Column has the token. Defaults to "fence". It is none of Set.
	Column string
}

// SQL is the statement for PostgreSQL. Its arguments are the values of Set, those of Key, and the text of the token (lock.Token.String), in this order.
// When it changes no row, the write was refused: see ErrStale. Use it where the statement runs by other means than Exec, for example in a batch. The
// error says which name is refused and why.
func (u Update) SQL() (string, error) {
	schema, table, qualified := strings.Cut(u.Table, ".")
	if !qualified {
		schema, table = "", u.Table
	}
	column := u.Column
	if column == "" {
		column = "fence"
	}
	if err := u.check(schema, table, qualified, column); err != nil {
		return "", err
	}
	token := len(u.Set) + len(u.Key) + 1
	set := equalities(u.Set, 1)
	set = append(set, fmt.Sprintf("%s = $%d", pgname.Quote(column), token))
	where := equalities(u.Key, len(u.Set)+1)
	where = append(where, fmt.Sprintf(`%s COLLATE "C" <= $%d`, pgname.Quote(column), token))
	return fmt.Sprintf("UPDATE %s SET %s WHERE %s", pgname.QuoteIn(schema, table), strings.Join(set, ", "), strings.Join(where, " AND ")), nil
}

// check refuses what makes no statement, or one that does not mean what was given.
func (u Update) check(schema, table string, qualified bool, column string) error {
	switch {
	case len(u.Set) == 0 || len(u.Key) == 0:
		return errors.New("fence: an Update needs at least one column in Set and one in Key")
	case strings.Contains(table, "."):
		return fmt.Errorf("fence: table %q is not <table> or <schema>.<table>", u.Table)
	}
	names := []struct {
		field string
		names []string
	}{{"Table", []string{table}}, {"Set", u.Set}, {"Key", u.Key}, {"Column", []string{column}}}
	if qualified {
		names[0].names = []string{schema, table}
	}
	for _, f := range names {
		for _, name := range f.names {
			if err := pgname.Check(name); err != nil {
				return fmt.Errorf("fence: a name in Update.%s: %w", f.field, err)
			}
		}
	}
	if slices.Contains(u.Set, column) {
		return fmt.Errorf("fence: column %q has the token, so it is not in Set: Exec writes it", column)
	}
	return nil
}

func equalities(columns []string, first int) []string {
	out := make([]string, 0, len(columns)+1)
	for i, column := range columns {
		out = append(out, fmt.Sprintf("%s = $%d", pgname.Quote(column), first+i))
	}
	return out
}

// Exec writes the values of u.Set to the rows that key finds, unless a greater token has written. token is that of the handle under which the work runs. In
// a transaction, give the transaction, and roll it back after an error.
//
// Errors: *StaleError (ErrStale) when nothing was changed; one that refuses u or the numbers of values, before anything is sent; and those of db, wrapped.
// After one of db that is no answer of the server, such as a broken connection or the end of ctx, the write may have been applied: writing the same again
// under the same token is safe. Of rows that key finds, those that a greater token has written are left out: only when all are, the error is
// a *StaleError. It has no timeout of its own: bound ctx, for example by the handle's context.
func (u Update) Exec(ctx context.Context, db Execer, token lock.Token, set, key []any) error {
	query, err := u.SQL()
	switch {
	case err != nil:
		return err
	case len(set) != len(u.Set) || len(key) != len(u.Key):
		return fmt.Errorf("fence: %d and %d values for %d columns in Set and %d in Key", len(set), len(key), len(u.Set), len(u.Key))
	case token.IsZero():
		return errors.New("fence: the token is zero: give that of a handle")
	}
	args := append(append(append([]any{}, set...), key...), token.String())
	result, err := db.ExecContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("fence: guarded update of %s: %w", u.Table, err)
	}
	changed, err := result.RowsAffected()
	switch {
	case err != nil:
		return fmt.Errorf("fence: rows changed in %s: %w", u.Table, err)
	case changed == 0:
		return &StaleError{What: u.Table, Token: token}
	}
	return nil
}
