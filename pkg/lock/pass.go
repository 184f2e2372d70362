// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

const (
	// maxPasses and maxChain bound how often and how long a process passes a lock on among its own goroutines: other processes wait as well.
	maxPasses = 16
	maxChain  = 100 * time.Millisecond
	// restPause is how long the head waits once its process has given the lock up for everyone: time for a notification and an
	// acquire of another process.
	restPause = 10 * time.Millisecond
)

// chain is the time for which this process has held a lock without giving it up.
type chain struct {
	since  clock.Instant
	passes int
}

// over reports that the lock is to be released for everyone.
func (l chain) over(now clock.Instant) bool {
	return l.passes >= maxPasses || now.Sub(l.since) >= maxChain
}

// passOn gives the lock of a handle that is over to the head of this process's queue, in one conditional write. It reports whether
// the store was told of the end of h and how that went; if not, the lock has to be released.
func (c *Client) passOn(ctx context.Context, h *Handle) (told bool, err error) {
	if c.passer == nil {
		return false, nil
	}
	if h.chain.over(c.clock.Now()) {
		c.queues.rest(h.key)
		return false, nil
	}
	w := c.queues.claim(h.key)
	if w == nil {
		return false, nil
	}
	next := newHandle(w.ctx, c, h.key, newID())
	sent := c.clock.Now()
	attemptCtx, cancel := context.WithTimeout(ctx, min(c.options.AttemptTimeout, w.ttl))
	defer cancel()
	grant, err := c.passer.Pass(attemptCtx, driver.PassRequest{From: h.id, To: c.request(next, w.ttl)})
	if err != nil {
		next.abandon()
		c.queues.deliver(w, nil)
		if errors.Is(err, ErrUnknown) {
			c.cleanup.release(h.key, next.id, w.ttl)
			return true, err
		}
		definite := errors.Is(err, driver.ErrNotHolder) || errors.Is(err, driver.ErrForeign)
		if !definite {
			c.log.DebugContext(ctx, "lock not passed on; it is released for everyone", "key", h.key, "error", err)
		}
		return definite, err
	}
	next.chain = chain{since: h.chain.since, passes: h.chain.passes + 1}
	if err := next.hold(grant, sent, w.ttl); err != nil {
		c.queues.deliver(w, nil)
		c.giveBack(ctx, next, max(w.ttl, grant.TTL))
		c.log.DebugContext(ctx, "lock passed on in vain", "key", h.key, "error", err)
		return true, nil
	}
	if !c.queues.deliver(w, next) {
		_ = next.end()
		c.giveBack(ctx, next, grant.TTL)
	}
	return true, nil
}

// giveBack releases what was passed to a waiter that does not take it.
func (c *Client) giveBack(ctx context.Context, h *Handle, ttl time.Duration) {
	err := c.driver.Release(ctx, driver.ReleaseRequest{Key: c.qualify(h.key), ID: h.id})
	c.queues.wake(h.key)
	if err != nil && !errors.Is(err, driver.ErrNotHolder) {
		c.cleanup.release(h.key, h.id, ttl)
		if !c.observers.none() {
			go c.observers.fault(ctx, h.key, "release", err)
		}
	}
}
