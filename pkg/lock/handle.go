// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Token is the fencing token of a grant. The tokens of one key only grow.
type Token = driver.Token

// Handle is a lock that was granted. It is Held until it is Released or Lost, both of which are final. It is safe for
// concurrent use.
type Handle struct {
	client *Client
	key    string
	id     string
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Set by hold, before the handle is handed out.
	token      Token
	acquiredAt time.Time
	sent       clock.Instant
	chain      chain

	// renewing keeps renewals one after another, and the release behind them.
	renewing sync.Mutex

	mu       sync.Mutex
	state    state
	ttl      time.Duration
	deadline clock.Instant
	timer    clock.Timer
	loss     *LostError // set when lost

	releaseOnce sync.Once
	releaseErr  error
}

type state int

const (
	statePending state = iota
	stateHeld
	stateReleased
	stateLost
)

// suspendCheck is how often a handle compares its deadline with the clock: Go's timers stop while the machine sleeps, so a timer
// for the deadline itself would be late by the time slept.
const suspendCheck = time.Second

// newHandle makes a handle that is not held yet. Its context keeps the values of ctx, not its end: the context of the wait
// is not the context of the hold.
func newHandle(ctx context.Context, c *Client, key, id string) *Handle {
	h := &Handle{client: c, key: key, id: id}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return h
}

// hold turns a grant into a held handle, unless it came too late to be of use, or the store or the binding has taken it back
// meanwhile.
func (h *Handle) hold(grant driver.Grant, sent clock.Instant, asked time.Duration) error {
	c := h.client
	if grant.TTL < asked || grant.Token.IsZero() {
		h.abandon()
		return &StoreError{Outcome: ErrUnknown, Op: "acquire", Reason: "bad-grant", Err: fmt.Errorf("the driver granted TTL %s for %s with token %s", grant.TTL, asked, grant.Token)}
	}
	if err := c.register(h); err != nil {
		h.abandon()
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateLost {
		c.unregister(h)
		return h.loss
	}
	h.token = grant.Token
	h.acquiredAt = time.Now() //nolint:forbidigo // For display.
	h.sent = sent
	h.ttl = grant.TTL
	h.deadline = deadline(sent, grant.TTL)
	now := c.clock.Now()
	if now >= h.deadline {
		h.state = stateReleased
		h.cancel(ErrReleased)
		c.unregister(h)
		return &StoreError{Outcome: ErrUnknown, Op: "acquire", Reason: "late-grant", Err: fmt.Errorf("the answer took %s of a TTL of %s", now.Sub(sent), grant.TTL)}
	}
	h.state = stateHeld
	h.arm(now)
	return nil
}

// abandon ends a handle that was never handed out.
func (h *Handle) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == statePending {
		h.state = stateReleased
	}
	h.cancel(ErrReleased)
}

// arm starts the next check of the deadline; h.mu is held.
func (h *Handle) arm(now clock.Instant) {
	h.timer = h.client.clock.AfterFunc(min(h.deadline.Sub(now), suspendCheck), h.check)
}

func (h *Handle) check() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != stateHeld {
		return
	}
	now := h.client.clock.Now()
	if now >= h.deadline {
		h.loseLocked(LossDeadline, nil)
		return
	}
	h.arm(now)
}

// lose ends a handle that is not over yet.
func (h *Handle) lose(reason LossReason, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == statePending || h.state == stateHeld {
		h.loseLocked(reason, cause)
	}
}

func (h *Handle) loseLocked(reason LossReason, cause error) {
	wasHeld := h.state == stateHeld
	h.state = stateLost
	h.loss = &LostError{Key: h.key, Reason: reason, Err: cause}
	h.cancel(h.loss)
	h.stopTimer()
	if wasHeld {
		h.client.unregister(h)
		h.client.queues.wake(h.key)
		h.client.log.Warn("lock lost", "key", h.key, "token", h.token.String(), "reason", string(reason), "error", h.loss)
	}
}

func (h *Handle) stopTimer() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

// Key is the application's key.
func (h *Handle) Key() string { return h.key }

// ID is the acquisition id: new for every grant.
func (h *Handle) ID() string { return h.id }

// Owner is what the store shows to people who inspect the lock.
func (h *Handle) Owner() string { return h.client.options.Owner }

// Token is the fencing token. Hand it to the resource that the work writes to, and let the resource refuse smaller ones.
func (h *Handle) Token() Token { return h.token }

// AcquiredAt is the wall-clock time of the grant, for display.
func (h *Handle) AcquiredAt() time.Time { return h.acquiredAt }

// TTL is what the store recorded at the last grant or renewal.
func (h *Handle) TTL() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ttl
}

// Remaining is how long the handle stays valid without a renewal; zero when it is over.
func (h *Handle) Remaining() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != stateHeld {
		return 0
	}
	return max(0, h.deadline.Sub(h.client.clock.Now()))
}

// ExpiresAt is the wall-clock time at which the handle ends without a renewal, for display. Decide by Valid.
func (h *Handle) ExpiresAt() time.Time {
	return time.Now().Add(h.Remaining()) //nolint:forbidigo // For display.
}

// Valid reports whether the lock is held. It does no I/O. A process that was stopped past the deadline finds false at
// its first call.
func (h *Handle) Valid() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != stateHeld {
		return false
	}
	if h.client.clock.Now() >= h.deadline {
		h.loseLocked(LossDeadline, nil)
		return false
	}
	return true
}

// Context ends when the lock ends: no later than its deadline, which is before the store can grant the key to another. Its cause
// is a *LostError or ErrReleased. It has the values of the context that the lock was acquired with, but does not end with it.
func (h *Handle) Context() context.Context { return h.ctx }

// Err is nil while the lock is held, then the cause of Context.
func (h *Handle) Err() error {
	if h.Valid() {
		return nil
	}
	return context.Cause(h.ctx)
}

// Renew asks the store for ttl from now on; 0 means the TTL of the last grant or renewal. Success moves the deadline and never changes the token.
// A renewal never takes a lock that was lost: then the error is a *LostError at once. After any other error the handle goes on until its
// old deadline, and Renew may be called again. A ttl that ends before the present deadline shortens it before anything is sent.
func (h *Handle) Renew(ctx context.Context, ttl time.Duration) error {
	h.renewing.Lock()
	defer h.renewing.Unlock()
	a, err := h.prepare(ttl)
	if err != nil {
		return err
	}
	c := h.client
	attemptCtx, cancel := context.WithTimeout(ctx, min(c.options.AttemptTimeout, a.limit()))
	defer cancel()
	renewal, err := c.driver.Renew(attemptCtx, a.request(h))
	return h.settle(a, renewal, tellContexts(ctx, "renew", err))
}

// attempt is a renewal that is about to be sent.
type attempt struct {
	sent clock.Instant
	ttl  time.Duration
}

// limit is the time for an answer: a quarter of the TTL leaves room for more attempts before the deadline.
func (a attempt) limit() time.Duration { return max(a.ttl/4, MinTTL/2) }

func (a attempt) request(h *Handle) driver.RenewRequest {
	return driver.RenewRequest{Key: h.client.qualify(h.key), ID: h.id, TTL: a.ttl}
}

// prepare is what comes before a renewal is sent; h.renewing is held.
func (h *Handle) prepare(ttl time.Duration) (attempt, error) {
	c := h.client
	ttl, err := resolveTTL(ttl, h.TTL(), c.options.MaxTTL, c.limits)
	if err != nil {
		return attempt{}, err
	}
	a := attempt{sent: c.clock.Now(), ttl: ttl}
	return a, h.shorten(deadline(a.sent, ttl))
}

// settle is what comes after a renewal was answered, or not.
func (h *Handle) settle(a attempt, renewal driver.Renewal, err error) error {
	switch {
	case errors.Is(err, driver.ErrNotHolder), errors.Is(err, driver.ErrForeign):
		h.lose(LossNotHolder, err)
		return h.Err()
	case err != nil:
		return err
	}
	return h.extend(a.sent, max(a.ttl, renewal.TTL))
}

// shorten moves the deadline forward to before, if that is earlier, and reports how a handle that is over ended.
func (h *Handle) shorten(before clock.Instant) error {
	if err := h.Err(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateHeld && before < h.deadline {
		h.deadline = before
		h.stopTimer()
		h.arm(h.client.clock.Now())
	}
	return nil
}

func (h *Handle) extend(sent clock.Instant, ttl time.Duration) error {
	if err := h.Err(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != stateHeld {
		return context.Cause(h.ctx)
	}
	h.ttl = ttl
	h.deadline = deadline(sent, ttl)
	h.stopTimer()
	h.arm(h.client.clock.Now())
	return nil
}

// Release ends the lock. Call it when the guarded work has returned: first the handle becomes invalid and its context ends, then the store is told.
// The store is told on a context of its own, bounded by Options.ReleaseTimeout, so a cancelled ctx still releases. Release frees
// nothing but this acquisition, and may be called any number of times; all calls return the same.
//
// The error is nil, a *LostError if the lock had ended before (the section was not exclusive for all of its time), or a fault
// of the store: then the release goes on in the background, and at the latest the TTL frees the key. No error undoes the work, so most
// callers only log it.
func (h *Handle) Release(ctx context.Context) error {
	h.releaseOnce.Do(func() { h.releaseErr = h.release(ctx) })
	return h.releaseErr
}

func (h *Handle) release(ctx context.Context) error {
	c := h.client
	lost := h.end()
	h.renewing.Lock()
	defer h.renewing.Unlock()
	held := c.clock.Now().Sub(h.sent)
	releaseCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.ReleaseTimeout)
	defer cancel()
	var told bool
	var err error
	if lost == nil {
		told, err = c.passOn(releaseCtx, h)
	}
	if !told {
		err = c.driver.Release(releaseCtx, driver.ReleaseRequest{Key: c.qualify(h.key), ID: h.id})
		c.queues.wake(h.key)
	}
	switch {
	case lost != nil:
		c.log.WarnContext(ctx, "lock released after it was lost: the section was not exclusive for all of its time", "key", h.key, "token", h.token.String(), "held", held, "error", lost)
		return lost
	case err == nil:
		c.log.DebugContext(ctx, "lock released", "key", h.key, "token", h.token.String(), "held", held)
		return nil
	case errors.Is(err, driver.ErrNotHolder), errors.Is(err, driver.ErrForeign):
		lost := &LostError{Key: h.key, Reason: LossNotHolder, Err: err}
		c.log.WarnContext(ctx, "lock was not ours any more when it was released: the section was not exclusive for all of its time", "key", h.key, "token", h.token.String(), "held", held, "error", lost)
		return lost
	default:
		c.cleanup.release(h.key, h.id, h.TTL())
		c.log.WarnContext(ctx, "release of a lock failed; it goes on in the background, and at the latest the TTL frees the key", "key", h.key, "token", h.token.String(), "held", held, "error", err)
		return tellContexts(releaseCtx, "release", err)
	}
}

// end makes the handle invalid before the store is told, and returns how it was lost if it was.
func (h *Handle) end() error {
	h.Valid()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateHeld {
		h.state = stateReleased
		h.cancel(ErrReleased)
		h.stopTimer()
		h.client.unregister(h)
	}
	if h.loss != nil {
		return h.loss
	}
	return nil
}
