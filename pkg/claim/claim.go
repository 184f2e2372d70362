// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// Claim is a row that was claimed. It is held until it is released or lost, both of which are final. Once it is lost somebody else may work on the row: stop
// the work, and roll back what it wrote. It is safe for concurrent use.
type Claim[T any] struct {
	table   *Table[T]
	row     T
	key     []any
	token   string
	fence   int64
	attempt int

	ctx    context.Context
	cancel context.CancelCauseFunc

	// storing keeps extensions one after another, and whatever ends the claim behind them.
	storing sync.Mutex

	mu       sync.Mutex
	state    state
	ttl      time.Duration
	deadline clock.Instant
	timer    clock.Timer
	loss     *LostError // set when lost
	// gone: the server said that no row has this claim's token.
	gone bool
	// settled: a completion was accepted, maybe in a transaction that is not committed yet. Nothing is extended any more.
	settled bool
	kept    bool
	keeper  clock.Timer

	releaseOnce sync.Once
	releaseErr  error
}

type state int

const (
	stateHeld state = iota
	stateEnded
	stateLost
)

// suspendCheck is how often a claim compares its deadline with the clock: Go's timers stop while the machine sleeps.
const suspendCheck = time.Second

// hold starts the time of a claim. The context keeps the values of ctx, not its end.
func (c *Claim[T]) hold(ctx context.Context, sent clock.Instant, ttl time.Duration) {
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ttl = ttl
	c.deadline = clock.Deadline(sent, ttl)
	c.arm()
}

// Row is the row as it was when it was claimed.
func (c *Claim[T]) Row() T { return c.row }

// Fence is the fencing token: the number of times that this row was claimed, this time included. Hand it to whatever the work writes to outside
// the database, and let that refuse smaller ones.
func (c *Claim[T]) Fence() int64 { return c.fence }

// Attempt counts the claims since the row was last completed or rescheduled, from 1. Claims that were given back do not count.
func (c *Claim[T]) Attempt() int { return c.attempt }

// Context ends when the claim ends: no later than its deadline, which is before the server lets another have the row. Its cause is a *LostError or
// ErrEnded. It has the values of the context that the row was claimed with, but does not end with it.
func (c *Claim[T]) Context() context.Context { return c.ctx }

// Err is nil while the claim is held, then the cause of Context: a *LostError or ErrEnded. It does no I/O.
func (c *Claim[T]) Err() error {
	c.Remaining()
	return context.Cause(c.ctx)
}

// Valid reports whether the claim is held. It does no I/O. A process that was stopped past the deadline finds false at its first call.
func (c *Claim[T]) Valid() bool { return c.Remaining() > 0 }

// Remaining is how long the claim stays valid without an extension; zero when it is over.
func (c *Claim[T]) Remaining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != stateHeld {
		return 0
	}
	left := c.deadline.Sub(c.table.options.Clock.Now())
	if left <= 0 {
		c.expire()
		return 0
	}
	return left
}

// arm starts the next check of the deadline; c.mu is held.
func (c *Claim[T]) arm() {
	clk := c.table.options.Clock
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = clk.AfterFunc(min(c.deadline.Sub(clk.Now()), suspendCheck), c.check)
}

func (c *Claim[T]) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state != stateHeld:
	case c.table.options.Clock.Now() >= c.deadline:
		c.expire()
	default:
		c.arm()
	}
}

// expire ends a claim whose time is over; c.mu is held. One that was completed is over as planned.
func (c *Claim[T]) expire() {
	if c.settled {
		c.end(stateEnded, ErrEnded)
		return
	}
	c.lose(LossDeadline)
}

// lose ends a claim that somebody else may have got; c.mu is held.
func (c *Claim[T]) lose(reason LossReason) {
	c.loss = c.lost(reason)
	c.end(stateLost, c.loss)
	c.table.options.Logger.WarnContext(c.ctx, "claim lost", "table", c.table.relation.String(), "key", c.key, "fence", c.fence, "attempt", c.attempt, "reason", string(reason))
}

// end is final; c.mu is held.
func (c *Claim[T]) end(s state, cause error) {
	c.state = s
	c.cancel(cause)
	c.timer.Stop()
	if c.keeper != nil {
		c.keeper.Stop()
	}
}

func (c *Claim[T]) lost(reason LossReason) *LostError {
	return &LostError{Table: c.table.relation.String(), Key: c.key, Fence: c.fence, Reason: reason}
}

// refused handles the server's answer that no row has this claim's token.
func (c *Claim[T]) refused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	if c.state == stateHeld {
		c.lose(LossNotHolder)
	}
	return c.lost(LossNotHolder)
}

func (c *Claim[T]) isGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// Extend asks the server for ttl from now on, from MinTTL to MaxTTL; 0 means the TTL of the claim or of its last extension. An extension never takes back a row whose claim has
// run out: then the error is a *LostError. After any other error the claim goes on until its old deadline, and Extend may be called
// again: an *InvalidError refuses the ttl, one that matches ErrEnded says that the row was completed, a *StoreError leaves open whether the server has
// extended. A ttl that ends before the present deadline shortens it before anything is sent. The answer is waited for until ctx ends, but no
// longer than Options.AttemptTimeout and a quarter of the ttl.
func (c *Claim[T]) Extend(ctx context.Context, ttl time.Duration) error {
	c.storing.Lock()
	defer c.storing.Unlock()
	t := c.table
	sent, ttl, err := c.prepareExtend(ttl)
	if err != nil {
		return err
	}
	attemptCtx, cancel := context.WithTimeout(ctx, min(t.options.AttemptTimeout, clock.AttemptLimit(ttl)))
	defer cancel()
	n, err := t.db.Exec(attemptCtx, t.sql.extend, c.args(micros(ttl))...)
	if err != nil {
		return t.fault("extend", err)
	}
	if n == 0 {
		return c.refused()
	}
	if err := c.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != stateHeld {
		return context.Cause(c.ctx)
	}
	c.ttl = ttl
	c.deadline = clock.Deadline(sent, ttl)
	c.arm()
	return nil
}

// prepareExtend is what comes before an extension is sent; c.storing is held.
func (c *Claim[T]) prepareExtend(ttl time.Duration) (clock.Instant, time.Duration, error) {
	sent := c.table.options.Clock.Now()
	if err := c.Err(); err != nil {
		return 0, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ttl == 0 {
		ttl = c.ttl
	}
	if err := checkTTL(ttl); err != nil {
		return 0, 0, err
	}
	if c.settled {
		return 0, 0, fmt.Errorf("claim: row %v of %s was completed already: %w", c.key, c.table.relation, ErrEnded)
	}
	if end := clock.Deadline(sent, ttl); end < c.deadline {
		c.deadline = end
		c.arm()
	}
	return sent, ttl, nil
}

// Keep extends the claim in the background at a third of its TTL, and at a twelfth after a failure, until it is completed, released or lost, or stop is
// called. After stop it is held until its deadline. A second call while it is kept starts nothing. It needs a Querier that is safe for concurrent use: a
// pool, not one connection.
func (c *Claim[T]) Keep() (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateHeld && !c.kept {
		c.kept = true
		c.schedule(false)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.kept = false
		if c.keeper != nil {
			c.keeper.Stop()
		}
	}
}

// schedule sets when the claim is extended next; c.mu is held.
func (c *Claim[T]) schedule(failed bool) {
	c.keeper = c.table.options.Clock.AfterFunc(clock.RenewalPause(c.ttl, failed), c.keep)
}

func (c *Claim[T]) keep() {
	err := c.Extend(c.ctx, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateHeld && c.kept {
		c.schedule(err != nil)
	}
}

// args is the claim's key and token, and what a statement needs besides.
func (c *Claim[T]) args(more ...any) []any {
	args := make([]any, 0, len(c.key)+1+len(more))
	args = append(args, c.key...)
	return append(append(args, c.token), more...)
}
