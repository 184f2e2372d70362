// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Querier is what statements go through: a pool, a connection or a transaction, made by Pgx or SQL. It is as safe for concurrent use as what it was made of.
type Querier interface {
	// Exec runs a statement and tells how many rows it changed.
	Exec(ctx context.Context, sql string, args ...any) (int64, error)
	// Query runs a statement that answers with rows. The caller closes them.
	Query(ctx context.Context, sql string, args ...any) (Rows, error)
}

// Rows is the answer to a query, read row by row.
type Rows interface {
	// Next goes on to the next row; false when there is none, or after an error.
	Next() bool
	// Scan writes the values of the present row to what dest points to.
	Scan(dest ...any) error
	// Err is the error that ended the rows early; it is known after Close.
	Err() error
	// Close ends the reading. It may be called again.
	Close()
}

// PgxQuerier is a *pgxpool.Pool, *pgx.Conn, *pgxpool.Conn or pgx.Tx.
type PgxQuerier interface {
	// Exec is that of pgx.
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	// Query is that of pgx.
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Pgx makes a Querier of what pgx gives.
func Pgx(q PgxQuerier) Querier { return pgxQuerier{q} }

type pgxQuerier struct{ q PgxQuerier }

func (p pgxQuerier) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := p.q.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (p pgxQuerier) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	return p.q.Query(ctx, query, args...) //nolint:sqlclosecheck // The caller of Query does.
}

// SQLQuerier is a *sql.DB, *sql.Conn or *sql.Tx.
type SQLQuerier interface {
	// ExecContext is that of database/sql.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// QueryContext is that of database/sql.
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// SQL makes a Querier of what database/sql gives, with a driver for PostgreSQL.
func SQL(q SQLQuerier) Querier { return sqlQuerier{q} }

type sqlQuerier struct{ q SQLQuerier }

func (s sqlQuerier) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := s.q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s sqlQuerier) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	rows, err := s.q.QueryContext(ctx, query, args...) //nolint:rowserrcheck // The caller of Query does both.
	if err != nil {
		return nil, err
	}
	return sqlRows{rows}, nil
}

// sqlRows closes without an error, like the rows of pgx; what went wrong while reading is told by Err.
type sqlRows struct{ *sql.Rows }

func (r sqlRows) Close() { _ = r.Rows.Close() }
