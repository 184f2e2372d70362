// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// observedAcquire tells the observers of an acquire. Must says that the caller cannot go on without the lock.
func (c *Client) observedAcquire(ctx context.Context, key string, ttl, wait time.Duration, must bool) (*Handle, error) {
	start := c.clock.Now()
	if c.observers.none() {
		return c.acquire(ctx, ctx, key, ttl, wait, must, start)
	}
	callCtx := c.observers.acquireStart(ctx, AcquireStartEvent{Key: key, TTL: ttl, Wait: wait})
	h, err := c.acquire(ctx, callCtx, key, ttl, wait, must, start)
	e := AcquireEndEvent{Key: key, Outcome: c.outcomeOf(callCtx, err, OutcomeGranted), Waited: c.clock.Now().Sub(start), Err: err}
	if h != nil {
		e.Token, e.PassedOn = h.token, h.chain.passes > 0
	}
	c.observers.acquireEnd(callCtx, e)
	if h != nil {
		h.announced()
	}
	return h, err
}

// acquire sends its requests with ctx; the handle has the values of holdCtx.
func (c *Client) acquire(holdCtx, ctx context.Context, key string, ttl, wait time.Duration, must bool, start clock.Instant) (*Handle, error) {
	if must && wait == 0 {
		return nil, &InvalidError{Argument: "wait", Problem: "is 0: use TryAcquire for one attempt that does not wait"}
	}
	if err := validateKey(key); err != nil {
		return nil, err
	}
	ttl, err := resolveTTL(ttl, c.options.DefaultTTL, c.options.MaxTTL, c.limits)
	if err != nil {
		return nil, err
	}
	if wait < 0 {
		return nil, &InvalidError{Argument: "wait", Problem: fmt.Sprintf("%s is negative; 0 is one attempt that does not wait", wait)}
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, contextEnded(ctx)
	}
	var h *Handle
	if wait == 0 {
		h, err = c.attempt(holdCtx, ctx, key, ttl)
	} else {
		h, err = c.waitFor(holdCtx, ctx, key, ttl, start.Add(wait))
	}
	if held, ok := errors.AsType[*HeldError](err); ok && must {
		err = &WaitTimeoutError{Key: key, Wait: wait, Held: held}
	}
	waited := c.clock.Now().Sub(start)
	switch {
	case err == nil:
		c.log.DebugContext(ctx, "lock acquired", "key", key, "token", h.token.String(), "ttl", h.TTL(), "waited", waited)
	case wait > 0:
		c.log.WarnContext(ctx, "wait for a lock ended without it", "key", key, "waited", waited, "error", err)
	default:
		c.log.DebugContext(ctx, "lock not acquired", "key", key, "waited", waited, "error", err)
	}
	return h, err
}

// attempt sends one acquire. Whatever happens, an acquisition that the store may have recorded and the caller does not get is
// released by its id in the background.
func (c *Client) attempt(holdCtx, ctx context.Context, key string, ttl time.Duration) (*Handle, error) {
	h := newHandle(holdCtx, c, key, newID())
	attemptCtx, cancel := context.WithTimeout(ctx, min(c.options.AttemptTimeout, ttl))
	defer cancel()
	sent := c.clock.Now()
	h.chain = chain{since: sent}
	grant, err := c.driver.Acquire(attemptCtx, c.request(h, ttl))
	if err == nil {
		err = h.hold(grant, sent, ttl)
		if err == nil {
			return h, nil
		}
		c.cleanup.release(key, h.id, max(ttl, grant.TTL))
	} else {
		h.abandon()
		if errors.Is(err, ErrUnknown) {
			c.cleanup.release(key, h.id, ttl)
		}
		err = tellContexts(ctx, "acquire", err)
	}
	if ctx.Err() == nil && c.err() == nil {
		c.observers.fault(ctx, key, "acquire", err)
	}
	return nil, err
}

// request asks the store for what h is to be.
func (c *Client) request(h *Handle, ttl time.Duration) driver.AcquireRequest {
	return driver.AcquireRequest{
		Key:    c.qualify(h.key),
		ID:     h.id,
		TTL:    ttl,
		Owner:  c.options.Owner,
		OnLost: func(cause error) { h.lose(LossStoreChanged, cause) },
	}
}

// waitFor queues for the key within the process.
func (c *Client) waitFor(holdCtx, ctx context.Context, key string, ttl time.Duration, until clock.Instant) (h *Handle, err error) {
	q, w := c.queues.join(holdCtx, key, ttl)
	defer func() {
		// A lock that was passed to this waiter just as it gave up is its own.
		if h = c.queues.leave(key, q, w, h); h != nil {
			err = nil
		}
	}()
	timeout := c.clock.NewTimer(until.Sub(c.clock.Now()))
	defer timeout.Stop()
	select {
	case <-w.turn:
		return c.lead(ctx, key, q, w, until)
	case <-timeout.C():
		return nil, &HeldError{Key: key}
	case <-ctx.Done():
		return nil, contextEnded(ctx)
	case <-c.failed:
		return nil, c.err()
	}
}

// lead is the wait of the head of the queue, which asks the store until it grants or the time is up. Meanwhile it sleeps until a notification,
// the time that the record has left, or the slow poll, whichever is first, or until another goroutine of this process passes the lock to it.
func (c *Client) lead(ctx context.Context, key string, q *queue, w *waiter, until clock.Instant) (*Handle, error) {
	found := false
	for {
		held, deaf := c.heldHere(key, q), false
		var fault error
		if held == nil {
			h, err := c.ask(ctx, key, q, w, until)
			if err == nil {
				return h, nil
			}
			if !errors.As(err, &held) {
				if !found || ctx.Err() != nil || !passing(err) {
					return nil, err
				}
				fault = err
				c.log.DebugContext(ctx, "store fault while waiting for a lock", "key", key, "error", err)
			}
			deaf = c.waiter != nil && q.subscription == nil
		}
		found = found || held != nil
		left := until.Sub(c.clock.Now())
		if left <= 0 {
			if held == nil {
				return nil, fault
			}
			return nil, held
		}
		if held != nil && deaf && c.subscribe(ctx, q, key, left) {
			// The key may have become free before the subscription was confirmed: ask once more before sleeping.
			continue
		}
		c.queues.asked(w)
		h, err := c.sleep(ctx, q, w, min(left, c.pause(held, deaf)))
		if h != nil || err != nil {
			return h, err
		}
	}
}

// heldHere is the answer that the store would give while a handle of this process is valid.
func (c *Client) heldHere(key string, q *queue) *HeldError {
	holder := c.queues.holderOf(q)
	if holder == nil || !holder.Valid() {
		return nil
	}
	return &HeldError{Key: key, Owner: c.options.Owner, Remaining: holder.Remaining()}
}

// ask makes one attempt, unless the lock is just being passed to this waiter.
func (c *Client) ask(ctx context.Context, key string, q *queue, w *waiter, until clock.Instant) (*Handle, error) {
	for {
		may, rest := c.queues.ask(q, w)
		if may {
			if rest {
				if err := c.rest(ctx, min(restPause, until.Sub(c.clock.Now()))); err != nil {
					return nil, err
				}
			}
			return c.attempt(w.ctx, ctx, key, w.ttl)
		}
		select {
		case h := <-w.passed:
			if h != nil {
				return h, nil
			}
		case <-ctx.Done():
			return nil, contextEnded(ctx)
		case <-c.failed:
			return nil, c.err()
		}
	}
}

// contextEnded is the error of a caller whose ctx ended while nothing was under way for it.
func contextEnded(ctx context.Context) error {
	return &StoreError{Outcome: ErrUnavailable, Op: "acquire", Reason: "context", Err: driver.ContextError(ctx)}
}

// passing reports whether a fault may go away by itself, so that a waiter rides it out.
func passing(err error) bool {
	var store *StoreError
	if errors.As(err, &store) && store.Lasting {
		return false
	}
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown)
}

// subscribe makes the queue's subscription if it has none. It reports whether a new one was confirmed.
func (c *Client) subscribe(ctx context.Context, q *queue, key string, left time.Duration) bool {
	if c.waiter == nil || q.subscription != nil {
		return false
	}
	subscribeCtx, cancel := context.WithTimeout(ctx, min(left, c.options.AttemptTimeout))
	defer cancel()
	subscription, err := c.waiter.Subscribe(subscribeCtx, c.qualify(key))
	if err != nil {
		c.log.DebugContext(ctx, "no notification of a release; the poll serves", "key", key, "error", err)
		if ctx.Err() == nil {
			c.observers.fault(ctx, key, "subscribe", err)
		}
		return false
	}
	q.subscription = subscription
	return true
}

// faultPause is how long a waiter sleeps after a fault of the store that may pass.
const faultPause = 250 * time.Millisecond

// pause is how long a waiter sleeps at most if no notification comes: the slow poll, or the time that the record has left if
// that is less, with a jitter so that the waiters of many processes do not ask at one instant. After a fault it is short: of the acquire, so that held is
// nil, or of the subscription, so that the waiter is deaf.
func (c *Client) pause(held *HeldError, deaf bool) time.Duration {
	poll := c.options.PollInterval
	if held == nil || deaf {
		poll = min(poll, faultPause)
	}
	poll = poll - poll/20 + rand.N(poll/10+1)
	if held == nil || held.Remaining <= 0 {
		return poll
	}
	const maxJitter = 50 * time.Millisecond
	return min(poll, held.Remaining+rand.N(min(held.Remaining/20, maxJitter)+1))
}

// sleep ends with a handle when the lock was passed to this waiter.
func (c *Client) sleep(ctx context.Context, q *queue, w *waiter, d time.Duration) (*Handle, error) {
	timer := c.clock.NewTimer(d)
	defer timer.Stop()
	var wake <-chan struct{}
	if q.subscription != nil {
		wake = q.subscription.Wake()
	}
	select {
	case h := <-w.passed:
		return h, nil
	case <-wake:
	case <-q.released:
	case <-timer.C():
	case <-ctx.Done():
		return nil, contextEnded(ctx)
	case <-c.failed:
		return nil, c.err()
	}
	return nil, nil
}

// rest is a pause that nothing but the end of the wait cuts short.
func (c *Client) rest(ctx context.Context, d time.Duration) error {
	timer := c.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return contextEnded(ctx)
	case <-c.failed:
		return c.err()
	}
}
