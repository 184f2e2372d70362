// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
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
	// held is for how long, set when lost.
	held time.Duration
	// known says that the observers were told of the grant, and so are to be told of the end.
	known bool

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
	h.deadline = clock.Deadline(sent, grant.TTL)
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
		h.held = h.client.clock.Now().Sub(h.sent)
		h.client.unregister(h)
		h.client.queues.wake(h.key)
		h.client.losses.write(h, h.loss, h.held)
	}
	if h.known {
		go h.tellEnd(h.held, h.loss)
	}
}

// announced notes that the observers were told of the grant, and tells them of a loss meanwhile.
func (h *Handle) announced() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = true
	if h.state == stateLost {
		go h.tellEnd(h.held, h.loss)
	}
}

// tellEnd tells the observers how the lock ended; loss is nil if it was released.
func (h *Handle) tellEnd(held time.Duration, loss *LostError) {
	e := HoldEndEvent{Key: h.key, Token: h.token, Held: held}
	if loss != nil {
		e.Reason, e.Err = loss.Reason, loss
	}
	h.client.observers.holdEnd(h.ctx, e)
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
