// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// Options are what a Table can be told. The zero value, or nil, is ready to use with a T whose fields have db tags.
type Options[T any] struct {
	// Columns are the names of the columns that the claim is kept in. Each defaults to its usual name.
	Columns Columns
	// RowColumns and Fields say how a row becomes a T: Fields gives a pointer for each of RowColumns, in their order. The key is among them.
	// Default to the fields of the struct T that have a tag `db:"column"`.
	RowColumns []string
	Fields     func(*T) []any
	// Where narrows the rows that are claimed. Defaults to all.
	Where Condition
	// MaxAttempts is how often a row is claimed before it is left as exhausted; see Table.Exhausted. Unlimited is no maximum.
	// Defaults to 20.
	MaxAttempts int
	// AttemptTimeout bounds one statement of Claim, Extend and Release, whatever the caller's context allows. Defaults to 5 s.
	AttemptTimeout time.Duration
	// Logger gets Warn records for claims that were lost and for rows that do not fit T. Defaults to no logging.
	Logger *slog.Logger
	// Clock is for tests. Defaults to clock.Boot.
	Clock clock.Clock
}

// Unlimited is a MaxAttempts that is never reached.
const Unlimited = math.MaxInt32

// MaxBatch is the most rows that one Claim can take.
const MaxBatch = 1000

const (
	defaultMaxAttempts    = 20
	defaultAttemptTimeout = 5 * time.Second
)

func (o *Options[T]) resolve() (Options[T], error) {
	var r Options[T]
	if o != nil {
		r = *o
	}
	r.Columns = r.Columns.resolve()
	if r.MaxAttempts == 0 {
		r.MaxAttempts = defaultMaxAttempts
	}
	if r.AttemptTimeout == 0 {
		r.AttemptTimeout = defaultAttemptTimeout
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	if r.Clock == nil {
		r.Clock = clock.Boot()
	}
	switch {
	case r.MaxAttempts < 0 || r.MaxAttempts > Unlimited:
		return r, &InvalidError{Argument: "MaxAttempts", Problem: fmt.Sprintf("%d is not between 1 and Unlimited", r.MaxAttempts)}
	case r.AttemptTimeout < 0:
		return r, &InvalidError{Argument: "AttemptTimeout", Problem: fmt.Sprintf("%s is negative", r.AttemptTimeout)}
	}
	return r, r.Where.check()
}

// Table hands out claims on the rows of one table. It is safe for concurrent use if its Querier is.
type Table[T any] struct {
	db       Querier
	relation Relation
	options  Options[T]
	rows     rowType[T]
	sql      statements
}

// New makes a Table of rows of type T. It sends nothing: call Check once, at start or in a test. db is a pool or a *sql.DB: claims are made,
// extended and released through it, so what it does has to be committed at once. Names, options and row types that cannot work are refused with an
// *InvalidError.
func New[T any](db Querier, relation Relation, options *Options[T]) (*Table[T], error) {
	if db == nil {
		return nil, &InvalidError{Argument: "db", Problem: "is nil; give claim.Pgx(pool) or claim.SQL(db)"}
	}
	resolved, err := options.resolve()
	if err != nil {
		return nil, err
	}
	if err := relation.check(resolved.Columns); err != nil {
		return nil, err
	}
	rows, err := newRowType(relation.Key, resolved.RowColumns, resolved.Fields)
	if err != nil {
		return nil, err
	}
	return &Table[T]{
		db:       db,
		relation: relation,
		options:  resolved,
		rows:     rows,
		sql:      compose(relation, resolved.Columns, resolved.Where, rows.columns),
	}, nil
}

// Claim takes up to n rows, at most MaxBatch, that are due, not claimed and not exhausted, for ttl each, from MinTTL to MaxTTL: those that are due longest first, ties by key. None is no
// error. Rows that somebody else has locked at the moment are passed over.
//
// An *InvalidError refuses n or ttl. A *StoreError means that the caller holds nothing; it matches the error of ctx where that has ended. If the answer was lost, the rows come back when their claims expire, with this attempt
// counted. A row whose values do not fit T is left out, and logged; if there is no other, the error is a *RowError.
func (t *Table[T]) Claim(ctx context.Context, n int, ttl time.Duration) ([]*Claim[T], error) {
	if n < 1 || n > MaxBatch {
		return nil, &InvalidError{Argument: "n", Problem: fmt.Sprintf("%d is not between 1 and %d", n, MaxBatch)}
	}
	if err := checkTTL(ttl); err != nil {
		return nil, err
	}
	token := newToken()
	claims, err := t.claim(ctx, token, n, ttl)
	if _, unfit := errors.AsType[*RowError](err); !unfit || n == 1 {
		return claims, err
	}
	if err := t.giveBack(ctx, token); err != nil {
		return nil, err
	}
	return t.claimSingly(ctx, n, ttl)
}

// claimSingly keeps a row that does not fit from taking others along.
func (t *Table[T]) claimSingly(ctx context.Context, n int, ttl time.Duration) ([]*Claim[T], error) {
	var claims []*Claim[T]
	var failed error
	for range n {
		one, err := t.claim(ctx, newToken(), 1, ttl)
		if err != nil {
			failed = err
			if _, unfit := errors.AsType[*RowError](err); unfit {
				t.options.Logger.WarnContext(ctx, "a claimed row does not fit the row type; it is left until its claim expires", "table", t.relation.String(), "error", err)
				continue
			}
			break
		}
		if len(one) == 0 {
			break
		}
		claims = append(claims, one...)
	}
	if len(claims) > 0 {
		return claims, nil
	}
	return nil, failed
}

func (t *Table[T]) claim(ctx context.Context, token string, n int, ttl time.Duration) ([]*Claim[T], error) {
	args := append(append([]any(nil), t.options.Where.args...), token, micros(ttl), int64(n), int64(t.options.MaxAttempts))
	attemptCtx, cancel := context.WithTimeout(ctx, t.options.AttemptTimeout)
	defer cancel()
	sent := t.options.Clock.Now()
	rows, err := t.db.Query(attemptCtx, t.sql.claim, args...)
	if err != nil {
		return nil, t.fault("claim", err)
	}
	defer rows.Close()
	var found []*Claim[T]
	for rows.Next() {
		c := &Claim[T]{table: t, token: token}
		pointers := t.rows.fields(&c.row)
		if err := rows.Scan(append([]any{&c.fence, &c.attempt}, pointers...)...); err != nil {
			rows.Close()
			return nil, &RowError{Table: t.relation.String(), Err: err}
		}
		c.key = t.rows.keyOf(pointers)
		found = append(found, c)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, t.fault("claim", err)
	}
	if now := t.options.Clock.Now(); now >= clock.Deadline(sent, ttl) && len(found) > 0 {
		return nil, t.fault("claim", fmt.Errorf("the answer took %s of a TTL of %s, so the claims are over already", now.Sub(sent), ttl))
	}
	for _, c := range found {
		c.hold(ctx, sent, ttl)
	}
	return found, nil
}

// giveBack frees what a statement claimed whose answer could not be used. The attempts are not counted.
func (t *Table[T]) giveBack(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.options.AttemptTimeout)
	defer cancel()
	if _, err := t.db.Exec(ctx, t.sql.giveBack, token); err != nil {
		return t.fault("release", err)
	}
	return nil
}

// Exhausted reads up to n rows that were claimed MaxAttempts times and not completed, and that nobody holds: those that were due
// longest first. They stay until somebody deletes them, or sets their attempts to 0 to have them run again. n is from 1 to MaxBatch, else the error is an
// *InvalidError; others are *StoreError and *RowError. It has no timeout of its own: bound ctx.
func (t *Table[T]) Exhausted(ctx context.Context, n int) ([]T, error) {
	if n < 1 || n > MaxBatch {
		return nil, &InvalidError{Argument: "n", Problem: fmt.Sprintf("%d is not between 1 and %d", n, MaxBatch)}
	}
	args := append(append([]any(nil), t.options.Where.args...), int64(n), int64(t.options.MaxAttempts))
	rows, err := t.db.Query(ctx, t.sql.exhausted, args...)
	if err != nil {
		return nil, t.fault("exhausted", err)
	}
	defer rows.Close()
	var found []T
	for rows.Next() {
		var row T
		if err := rows.Scan(t.rows.fields(&row)...); err != nil {
			return nil, &RowError{Table: t.relation.String(), Err: err}
		}
		found = append(found, row)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, t.fault("exhausted", err)
	}
	return found, nil
}

func (t *Table[T]) fault(op string, err error) error {
	return &StoreError{Op: op, Table: t.relation.String(), Err: err}
}

// newToken is 128 random bits in the form of a uuid, which is the column's type. They all are random: nothing reads a version out of them.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // It never fails.
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}
