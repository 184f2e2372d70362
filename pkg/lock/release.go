// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Release ends the lock. Call it when the guarded work has returned: first the handle becomes invalid and its context ends, then the store is told.
// The store is told on a context of its own, bounded by Options.ReleaseTimeout, so a cancelled ctx still releases. Release frees
// nothing but this acquisition, and may be called any number of times; all calls return the same.
//
// The error is nil, a *LostError if the lock had ended before (the section was not exclusive for all of its time), or a fault
// of the store: then the release goes on in the background, and at the latest the TTL frees the key. No error undoes the work, so most
// callers only log it.
func (h *Handle) Release(ctx context.Context) error {
	h.releaseOnce.Do(func() { h.releaseErr = h.release(ctx, 0) })
	return h.releaseErr
}

// release frees the key, or leaves it locked for rest if that is not zero.
func (h *Handle) release(ctx context.Context, rest time.Duration) error {
	lost := h.end()
	o := &h.client.observers
	if o.none() {
		return h.giveUp(ctx, lost, rest).err
	}
	start := h.client.clock.Now()
	ctx = o.releaseStart(ctx, ReleaseStartEvent{Key: h.key, Token: h.token, Rest: rest})
	r := h.giveUp(ctx, lost, rest)
	if lost == nil {
		loss, _ := errors.AsType[*LostError](r.err)
		h.tellEnd(r.held, loss)
	}
	o.fault(ctx, h.key, "pass", tellContexts(context.Background(), "pass", r.passFault))
	o.fault(ctx, h.key, r.op, tellContexts(context.Background(), r.op, r.fault))
	o.releaseEnd(ctx, ReleaseEndEvent{
		Key: h.key, Token: h.token, Rest: rest, Outcome: h.client.outcomeOf(context.Background(), r.err, OutcomeReleased), Took: h.client.clock.Now().Sub(start), Err: r.err,
	})
	return r.err
}

// released is what came of a release.
type released struct {
	held time.Duration
	// passFault and fault are what the store answered to the pass and to op: the release, or the renewal that leaves the key.
	passFault, fault error
	op               string
	err              error
}

// giveUp tells the store of the end of the handle; lost is how it was lost if it was.
func (h *Handle) giveUp(ctx context.Context, lost *LostError, rest time.Duration) (r released) {
	c := h.client
	if lost != nil {
		rest = 0
	}
	h.renewing.Lock()
	defer h.renewing.Unlock()
	r.held = c.clock.Now().Sub(h.sent)
	releaseCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.ReleaseTimeout)
	defer cancel()
	err := h.tellStore(releaseCtx, lost, rest, &r)
	switch {
	case lost != nil:
		c.log.WarnContext(ctx, "lock released after it was lost: the section was not exclusive for all of its time", "key", h.key, "token", h.token.String(), "held", r.held, "error", lost)
		r.err = lost
	case err == nil:
		c.log.DebugContext(ctx, "lock released", "key", h.key, "token", h.token.String(), "held", r.held, "rest", rest)
	case errors.Is(err, driver.ErrNotHolder), errors.Is(err, driver.ErrForeign):
		r.err = &LostError{Key: h.key, Reason: LossNotHolder, Err: err}
		c.log.WarnContext(ctx, "lock was not ours any more when it was released: the section was not exclusive for all of its time", "key", h.key, "token", h.token.String(), "held", r.held, "error", r.err)
	case rest > 0:
		c.log.WarnContext(ctx, "lock was left, perhaps not for the rest that was asked: the key may stay locked for what was left of its TTL", "key", h.key, "token", h.token.String(), "held", r.held, "rest", rest, "error", err)
		r.err = tellContexts(context.Background(), r.op, err)
	default:
		c.cleanup.release(h.key, h.id, h.TTL())
		c.log.WarnContext(ctx, "release of a lock failed; it goes on in the background, and at the latest the TTL frees the key", "key", h.key, "token", h.token.String(), "held", r.held, "error", err)
		r.err = tellContexts(context.Background(), "release", err) // The caller's context has no part in it.
	}
	return r
}

// tellStore passes the lock on, frees the key, or leaves it for rest.
func (h *Handle) tellStore(ctx context.Context, lost *LostError, rest time.Duration, r *released) error {
	c := h.client
	if rest > 0 {
		r.op = "renew"
		_, r.fault = c.driver.Renew(ctx, driver.RenewRequest{Key: c.qualify(h.key), ID: h.id, TTL: rest})
		c.queues.wake(h.key)
		return r.fault
	}
	r.op = "release"
	if lost == nil {
		var told bool
		if told, r.passFault = c.passOn(ctx, h); told {
			return r.passFault
		}
	}
	r.fault = c.driver.Release(ctx, driver.ReleaseRequest{Key: c.qualify(h.key), ID: h.id})
	c.queues.wake(h.key)
	return r.fault
}

// end makes the handle invalid before the store is told, and returns how it was lost if it was.
func (h *Handle) end() *LostError {
	h.Valid()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateHeld {
		h.state = stateReleased
		h.cancel(ErrReleased)
		h.stopTimer()
		h.client.unregister(h)
	}
	return h.loss
}
