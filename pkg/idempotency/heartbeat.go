// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// heartbeat extends the lease of a record while the handler runs, up to MaxExecution, and ends the handler's context when the lease is lost.
type heartbeat struct {
	x      *execution
	cancel context.CancelCauseFunc
	// ctx ends a request that is under way when the handler has returned.
	ctx  context.Context
	stop context.CancelFunc
	// last is when the last extension must have ended: no later than MaxExecution after the start.
	last clock.Instant

	mu    sync.Mutex
	over  bool
	until clock.Instant // the end of the lease at the earliest
	timer clock.Timer
}

func (x *execution) startHeartbeat(cancel context.CancelCauseFunc) *heartbeat {
	b := &heartbeat{x: x, cancel: cancel, last: x.claimed.Add(x.policy.MaxExecution), until: x.claimed.Add(x.policy.TTL)}
	b.ctx, b.stop = context.WithCancel(context.Background())
	if x.recorded {
		b.arm(x.policy.TTL / 3)
	}
	return b
}

// arm starts the timer of the next beat. The mutex is held, or nobody else knows of b.
func (b *heartbeat) arm(d time.Duration) {
	b.timer = b.x.guard.clock.AfterFunc(d, b.beat)
}

func (b *heartbeat) beat() {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.x.guard
	sent := g.clock.Now()
	if b.over || sent >= b.last {
		return
	}
	ttl := b.x.policy.TTL
	ctx, cancel := context.WithTimeout(b.ctx, min(g.options.StoreTimeout, ttl/3))
	defer cancel()
	err := g.store.Extend(ctx, b.x.key, b.x.owner, ttl)
	pause := ttl / 3
	switch {
	case b.ctx.Err() != nil:
		return
	case err == nil:
		b.until = sent.Add(ttl)
	case errors.Is(err, ErrClaimLost), g.clock.Now() >= b.until:
		b.cancel(err)
		return
	default:
		g.log.WarnContext(b.ctx, "lease of an idempotency record not extended, trying again", "route", b.x.route, "error", err)
		pause = ttl / 10
	}
	b.arm(pause)
}

// end stops the heartbeat and returns when no request of it is under way.
func (b *heartbeat) end() {
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.timer != nil {
		b.timer.Stop()
	}
}
