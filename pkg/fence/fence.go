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
	"errors"
	"fmt"
	"regexp"
	"strings"

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

// Execer runs a statement: *sql.DB, *sql.Tx, *sql.Conn.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Update is a guarded UPDATE of rows of one table. Names are taken literally, so upper and lower case differ, and only letters, digits
// and '_' are accepted, in up to 63 of them.
type Update struct {
	// Table is the table, or "<schema>.<table>".
	Table string
	// Set are the columns to be written, at least one.
	Set []string
	// Key are the columns that find the rows by equality, at least one.
	Key []string
	// Column has the token. Defaults to "fence".
	Column string
}

var identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,62}$`)

// SQL is the statement for PostgreSQL. Its arguments are the values of Set, those of Key, and the text of the token (lock.Token.String), in this order.
// When it changes no row, the write was refused: see ErrStale. Use it where the statement runs by other means than Exec, for example by pgx.
func (u Update) SQL() (string, error) {
	if len(u.Set) == 0 || len(u.Key) == 0 {
		return "", errors.New("fence: an Update needs at least one column in Set and one in Key")
	}
	table := strings.Split(u.Table, ".")
	if len(table) > 2 {
		return "", fmt.Errorf("fence: table %q is not <table> or <schema>.<table>", u.Table)
	}
	column := u.Column
	if column == "" {
		column = "fence"
	}
	for _, name := range append(append(append(table, u.Set...), u.Key...), column) {
		if !identifier.MatchString(name) {
			return "", fmt.Errorf("fence: name %q is not 1 to 63 letters, digits or '_' that do not begin with a digit", name)
		}
	}
	token := len(u.Set) + len(u.Key) + 1
	set := equalities(u.Set, 1)
	set = append(set, fmt.Sprintf(`"%s" = $%d`, column, token))
	where := equalities(u.Key, len(u.Set)+1)
	where = append(where, fmt.Sprintf(`"%s" COLLATE "C" <= $%d`, column, token))
	return fmt.Sprintf(`UPDATE "%s" SET %s WHERE %s`, strings.Join(table, `"."`), strings.Join(set, ", "), strings.Join(where, " AND ")), nil
}

func equalities(columns []string, first int) []string {
	out := make([]string, 0, len(columns)+1)
	for i, column := range columns {
		out = append(out, fmt.Sprintf(`"%s" = $%d`, column, first+i))
	}
	return out
}

// Exec writes the values of u.Set to the rows that key finds, unless a greater token has written. Errors: *StaleError (ErrStale), those of SQL, and those of
// db as they are.
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
