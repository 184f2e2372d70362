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

// Renew asks the store for ttl from now on; 0 means the TTL of the last grant or renewal. Success moves the deadline and never changes the token.
// A renewal never takes a lock that was lost: then the error is a *LostError at once. After any other error the handle goes on until its
// old deadline, and Renew may be called again. A ttl that ends before the present deadline shortens it before anything is sent.
//
// The other errors: an *InvalidError for a ttl that is not between MinTTL and Options.MaxTTL; ErrUnavailable and ErrUnknown for faults of the store, within
// Options.AttemptTimeout and a quarter of ttl; ErrBackendChanged; one that matches the context's error and its cause when ctx ended. Renewals of one handle
// are sent one after another.
func (h *Handle) Renew(ctx context.Context, ttl time.Duration) error {
	report := h.renew(ctx, ttl)
	report.tell(ctx)
	return report.err
}

func (h *Handle) renew(ctx context.Context, ttl time.Duration) renewalReport {
	h.renewing.Lock()
	defer h.renewing.Unlock()
	a, err := h.prepare(ttl)
	if err != nil {
		return renewalReport{err: err}
	}
	c := h.client
	attemptCtx, cancel := context.WithTimeout(ctx, min(c.options.AttemptTimeout, a.limit()))
	defer cancel()
	renewal, err := c.driver.Renew(attemptCtx, a.request(h))
	return h.report(a, h.settle(a, renewal, tellContexts(ctx, "renew", err)))
}

// renewalReport is what the observers are told of a renewal that was sent.
type renewalReport struct {
	handle *Handle // nil if there is nothing to tell
	took   time.Duration
	err    error
}

func (h *Handle) report(a attempt, err error) renewalReport {
	if h.client.observers.none() {
		return renewalReport{err: err}
	}
	return renewalReport{handle: h, took: h.client.clock.Now().Sub(a.sent), err: err}
}

// tell must not be called before others can renew and release the handle.
func (r renewalReport) tell(ctx context.Context) {
	h := r.handle
	if h == nil {
		return
	}
	c := h.client
	outcome := h.outcomeOfRenewal(ctx, r.err)
	c.observers.renew(ctx, RenewEvent{Key: h.key, Token: h.token, Outcome: outcome, Took: r.took, Err: r.err})
	if outcome != OutcomeCancelled {
		c.observers.fault(ctx, h.key, "renew", r.err)
	}
}

// attempt is a renewal that is about to be sent.
type attempt struct {
	sent clock.Instant
	ttl  time.Duration
}

// limit is the time for an answer.
func (a attempt) limit() time.Duration { return clock.AttemptLimit(a.ttl) }

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
	return a, h.shorten(clock.Deadline(a.sent, ttl))
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
	h.deadline = clock.Deadline(sent, ttl)
	h.stopTimer()
	h.arm(h.client.clock.Now())
	return nil
}
