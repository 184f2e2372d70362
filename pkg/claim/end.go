// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"time"
)

// Complete marks the row as done: it is due never again, and nobody holds it. The lock token is the predicate, so the claim of a row that somebody
// else has claimed since gets a *LostError, and nothing is changed: roll back. A claim that ran out is accepted as long as nobody has claimed
// the row since.
//
// Give the transaction that the work's effect is written in (Pgx(tx) or SQL(tx)), and call Complete first in it: from then on the
// transaction holds the row, so nobody can claim it before the commit. The context of the claim goes on until its deadline, so that the
// transaction can be finished under it; the claim is not extended any more.
//
// It has no timeout of its own but ctx, since it may wait for other transactions on the row. Outside a transaction, a *StoreError leaves open whether the row
// was completed.
func (c *Claim[T]) Complete(ctx context.Context, q Querier) error {
	return c.settle(ctx, q, "complete", c.table.sql.complete, c.args())
}

// Delete removes the row, as an outbox does with what was sent. It is otherwise like Complete.
func (c *Claim[T]) Delete(ctx context.Context, q Querier) error {
	return c.settle(ctx, q, "delete", c.table.sql.remove, c.args())
}

// RescheduleAt makes the row due at a time, with no attempt counted: the next run of a job that comes again. Compute it from the row's own
// times rather than from this machine's clock. A time that is past makes it due at once. It is otherwise like Complete.
func (c *Claim[T]) RescheduleAt(ctx context.Context, q Querier, at time.Time) error {
	return c.settle(ctx, q, "reschedule", c.table.sql.rescheduleAt, c.args(at))
}

// RescheduleIn makes the row due after a delay on the server's clock, in microseconds rounded up, with no attempt counted. A negative delay is refused with
// an *InvalidError. It is otherwise like Complete.
func (c *Claim[T]) RescheduleIn(ctx context.Context, q Querier, delay time.Duration) error {
	if delay < 0 {
		return &InvalidError{Argument: "delay", Problem: fmt.Sprintf("%s is negative", delay)}
	}
	return c.settle(ctx, q, "reschedule", c.table.sql.rescheduleIn, c.args(micros(delay)))
}

// settle sends what ends a claim with success.
func (c *Claim[T]) settle(ctx context.Context, q Querier, op, query string, args []any) error {
	// An extension that is under way is answered first: it would find the token gone, and count that as a loss.
	c.storing.Lock()
	defer c.storing.Unlock()
	n, err := q.Exec(ctx, query, args...)
	if err != nil {
		return c.table.fault(op, err)
	}
	if n == 0 {
		return c.refused()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled = true
	return nil
}

// isSettled reports whether a completion was accepted.
func (c *Claim[T]) isSettled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settled
}

// Release gives the row back at once, as it was: the attempt is not counted. Call it when the work has returned without success and without having
// failed, such as at shutdown; after a Complete whose transaction was committed it changes nothing, so it can be deferred. First the claim becomes
// invalid and its context ends, then the server is told, on a context of its own bounded by Options.AttemptTimeout, so a cancelled
// ctx still releases. All calls of Release and ReleaseAfter return what the first did.
//
// The error is nil, a *LostError if somebody else may have the row already, or a *StoreError; then the row comes back when its claim expires.
func (c *Claim[T]) Release(ctx context.Context) error {
	c.releaseOnce.Do(func() { c.releaseErr = c.release(ctx, c.table.sql.release, c.args()) })
	return c.releaseErr
}

// ReleaseAfter gives the row back after a failure: it is due again after delay on the server's clock, in microseconds rounded up, and the attempt counts. A
// negative delay is refused with an *InvalidError, and the claim goes on. It is otherwise like Release.
func (c *Claim[T]) ReleaseAfter(ctx context.Context, delay time.Duration) error {
	if delay < 0 {
		return &InvalidError{Argument: "delay", Problem: fmt.Sprintf("%s is negative", delay)}
	}
	c.releaseOnce.Do(func() { c.releaseErr = c.release(ctx, c.table.sql.releaseAfter, c.args(micros(delay))) })
	return c.releaseErr
}

func (c *Claim[T]) release(ctx context.Context, query string, args []any) error {
	c.finish()
	c.storing.Lock()
	defer c.storing.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.table.options.AttemptTimeout)
	defer cancel()
	n, err := c.table.db.Exec(ctx, query, args...)
	if err != nil {
		return c.table.fault("release", err)
	}
	if n == 0 && !c.isSettled() {
		return c.refused()
	}
	return nil
}

// finish makes the claim invalid before the server is told.
func (c *Claim[T]) finish() {
	c.Remaining()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateHeld {
		c.end(stateEnded, ErrEnded)
	}
}
