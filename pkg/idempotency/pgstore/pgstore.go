// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pgstore keeps idempotency records in a table of PostgreSQL, through pgx.
//
// The table is made by the application's migrations: Schema is the SQL, which is also in the file schema.sql. Check tells whether it is there and what to run if it
// is not. Records whose retention is over count as absent; Sweep deletes them, and something has to call it, for example a job once an hour.
//
// # Assumptions
//
// The connections write to the primary. With synchronous_commit off, a crash of the server can forget records, and repeats execute again. Leases and retentions follow
// the clock of the server. Every write is one statement, so a pooler in transaction mode is enough, with
// the mode of pgx that it needs.
//
// The role needs SELECT, INSERT, UPDATE and DELETE on the table.
package pgstore

import (
	"context"
	_ "embed" // The schema.
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

//go:embed schema.sql
var schema string

// DefaultTable is the name of the table in Schema.
const DefaultTable = "idempotency_records"

// Schema is the SQL that makes the table, with the name that Options.Table has, or "" for DefaultTable. It may be run again.
func Schema(table string) string {
	if table == "" {
		return schema
	}
	_, bare, qualified := strings.Cut(table, ".")
	if !qualified {
		bare = table
	}
	const index = DefaultTable + "_expires_at"
	named := strings.ReplaceAll(schema, index, "\x00") // An index has no schema of its own in its name.
	return strings.ReplaceAll(strings.ReplaceAll(named, DefaultTable, table), "\x00", bare+"_expires_at")
}

// Querier is what the store asks: a *pgxpool.Pool, or a *pgx.Conn that one goroutine uses.
type Querier interface {
	// Exec runs a statement that returns no rows.
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	// Query runs a statement that returns rows. Only Check needs it.
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	// QueryRow runs a statement that returns at most one row.
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Options are what New can be told. The zero value, or nil, is ready to use.
type Options struct {
	// Table is the name of the table, with its schema if it is not in the search path: lower-case letters, digits and underscores. Defaults to DefaultTable.
	Table string
	// MaxResponse is how many bytes of a response are kept; an answer that is larger is kept without its body. Defaults to 1 MiB.
	MaxResponse int
}

const defaultMaxResponse = 1 << 20

// Store is an idempotency.Store. It is safe for concurrent use if its Querier is.
type Store struct {
	db          Querier
	table       string
	maxResponse int
}

var _ idempotency.Store = (*Store)(nil)

var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`) //nolint:gochecknoglobals // It does not change.

// New makes a store over a pool, which it does not own. It sends nothing: call Check when the application starts. The error is an
// *idempotency.InvalidError.
func New(db Querier, options *Options) (*Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	if o.Table == "" {
		o.Table = DefaultTable
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = defaultMaxResponse
	}
	switch {
	case db == nil:
		return nil, &idempotency.InvalidError{Argument: "db", Problem: "is nil: give a *pgxpool.Pool"}
	case !tableName.MatchString(o.Table):
		return nil, &idempotency.InvalidError{Argument: "Table", Problem: fmt.Sprintf("%q is no name of lower-case letters, digits and underscores, with or without a schema", o.Table)}
	case o.MaxResponse < 0:
		return nil, &idempotency.InvalidError{Argument: "MaxResponse", Problem: "is negative"}
	}
	return &Store{db: db, table: o.Table, maxResponse: o.MaxResponse}, nil
}

// columns are what a record is read from; a row whose retention is over is not found.
const columns = `state, owner, token, fingerprint, lease_until <= clock_timestamp(), extract(epoch FROM lease_until - clock_timestamp())::float8, response`

// Get implements idempotency.Store.
func (s *Store) Get(ctx context.Context, key idempotency.Key) (idempotency.Record, error) {
	row := s.db.QueryRow(ctx, `SELECT `+columns+` FROM `+s.table+` WHERE key = $1 AND expires_at > clock_timestamp()`, key[:])
	record, err := scan(row)
	if errors.Is(err, pgx.ErrNoRows) {
		return idempotency.Record{}, nil
	}
	return record, s.fault(err)
}

// beginTries is how often Begin looks again for a record that was in its way and then was gone.
const beginTries = 10

// Begin implements idempotency.Store.
func (s *Store) Begin(ctx context.Context, key idempotency.Key, claim idempotency.Claim) (idempotency.Record, error) {
	for range beginTries {
		row := s.db.QueryRow(ctx, `
INSERT INTO `+s.table+` AS r (key, state, owner, token, fingerprint, lease_until, expires_at)
VALUES ($1, 1, $2, $3, $4, clock_timestamp() + $5::interval, clock_timestamp() + $6::interval)
ON CONFLICT (key) DO UPDATE SET state = 1, owner = excluded.owner, token = excluded.token, fingerprint = excluded.fingerprint,
  lease_until = excluded.lease_until, expires_at = excluded.expires_at, response = NULL
WHERE r.expires_at <= clock_timestamp()
   OR r.state = 1 AND r.lease_until <= clock_timestamp() AND (excluded.token = '' OR excluded.token >= r.token)
RETURNING `+columns, key[:], claim.Owner, tokenText(claim.Ownership), claim.Fingerprint[:], claim.Lease, max(claim.Retention, claim.Lease))
		record, err := scan(row)
		if !errors.Is(err, pgx.ErrNoRows) {
			return record, s.fault(err)
		}
		// Somebody's record is in the way. It may be gone when it is looked at.
		if record, err = s.Get(ctx, key); err != nil || record.State != idempotency.Absent {
			return record, err
		}
	}
	return idempotency.Record{}, fmt.Errorf("pgstore: a record came and went %d times while it was to be claimed", beginTries)
}

// Complete implements idempotency.Store.
func (s *Store) Complete(ctx context.Context, key idempotency.Key, owner idempotency.Ownership, result idempotency.Result) error {
	if size := len(result.Response); size > s.maxResponse {
		return &idempotency.TooLargeError{Size: size, Max: s.maxResponse}
	}
	tag, err := s.db.Exec(ctx, `
UPDATE `+s.table+` SET state = $4, response = $5, expires_at = clock_timestamp() + $6::interval
WHERE key = $1 AND owner = $2 AND token = $3 AND state IN (1, $4) AND expires_at > clock_timestamp()`,
		key[:], owner.Owner, tokenText(owner), int16(result.State), result.Response, result.Retention)
	return s.step(ctx, "complete", key, tag, err)
}

// Abort implements idempotency.Store.
func (s *Store) Abort(ctx context.Context, key idempotency.Key, owner idempotency.Ownership) error {
	tag, err := s.db.Exec(ctx, `DELETE FROM `+s.table+` WHERE key = $1 AND owner = $2 AND token = $3 AND state = 1`, key[:], owner.Owner, tokenText(owner))
	err = s.step(ctx, "abort", key, tag, err)
	if lost, ok := errors.AsType[*idempotency.ClaimLostError](err); ok && lost.Found == idempotency.Absent {
		return nil
	}
	return err
}

// Extend implements idempotency.Store.
func (s *Store) Extend(ctx context.Context, key idempotency.Key, owner idempotency.Ownership, lease time.Duration) error {
	tag, err := s.db.Exec(ctx, `
UPDATE `+s.table+` SET lease_until = clock_timestamp() + $4::interval, expires_at = greatest(expires_at, clock_timestamp() + $4::interval)
WHERE key = $1 AND owner = $2 AND token = $3 AND state = 1 AND expires_at > clock_timestamp()`, key[:], owner.Owner, tokenText(owner), lease)
	return s.step(ctx, "extend", key, tag, err)
}

// step judges a conditional statement: without a row, the record is another's, and the error says in which state it is now.
func (s *Store) step(ctx context.Context, op string, key idempotency.Key, tag pgconn.CommandTag, err error) error {
	if err != nil {
		return s.fault(err)
	}
	if tag.RowsAffected() > 0 {
		return nil
	}
	found, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	return &idempotency.ClaimLostError{Op: op, Found: found.State}
}

// Sweep deletes up to limit records whose retention is over, and tells how many. Call it until it returns less than limit; it may run on many replicas at a time.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if limit <= 0 {
		return 0, &idempotency.InvalidError{Argument: "limit", Problem: "is not positive"}
	}
	tag, err := s.db.Exec(ctx, `
DELETE FROM `+s.table+` WHERE key IN (SELECT key FROM `+s.table+` WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`, limit)
	return int(tag.RowsAffected()), s.fault(err)
}

// tokenText sorts as tokens do; without a token it is empty.
func tokenText(o idempotency.Ownership) string {
	if o.Token.IsZero() {
		return ""
	}
	return o.Token.String()
}

func scan(row pgx.Row) (idempotency.Record, error) {
	var (
		r           idempotency.Record
		state       int16
		token       string
		fingerprint []byte
		left        float64
	)
	if err := row.Scan(&state, &r.Owner, &token, &fingerprint, &r.Expired, &left, &r.Response); err != nil {
		return idempotency.Record{}, err
	}
	if state < 1 || state > 255 || len(fingerprint) != len(r.Fingerprint) {
		return idempotency.Record{}, fmt.Errorf("the record has state %d and a fingerprint of %d bytes, which this version does not write", state, len(fingerprint))
	}
	r.State = idempotency.State(state)
	copy(r.Fingerprint[:], fingerprint)
	if token != "" {
		parsed, err := driver.ParseToken(token)
		if err != nil {
			return idempotency.Record{}, err
		}
		r.Token = parsed
	}
	if r.State != idempotency.InFlight {
		r.Expired = false
		return r, nil
	}
	if !r.Expired {
		r.Left = max(time.Duration(left*float64(time.Second)), 1)
	}
	return r, nil
}

func (s *Store) fault(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgstore: table %s: %w", s.table, err)
}
