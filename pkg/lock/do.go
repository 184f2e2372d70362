// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DoOptions are what Do can be told. The zero value, or nil, is ready to use.
type DoOptions struct {
	// TTL is the crash guard, renewed while the function runs. Defaults to Options.DefaultTTL.
	TTL time.Duration
	// Wait is how long to wait for the key. Defaults to 0: one attempt.
	Wait time.Duration
	// MaxHold is how long the lock is held at most, from its grant; then it is lost for LossMaxHold, and the function's context ends. A negative one is an
	// *InvalidError. Defaults to Options.MaxTTL.
	MaxHold time.Duration
}

// Do runs fn while it holds key, renews the lock meanwhile, and releases it when fn has returned or panicked. To leave the key locked for a while, fn
// calls Handle.Leave as its last step.
//
// The context of fn ends with ctx, and with the lock: then its cause is a *LostError, and fn should stop. Do returns only after fn has.
// The error is that of TryAcquire if fn did not run, otherwise that of fn, joined with a *LostError if the lock ended before fn
// returned. A fault while releasing is logged and not returned: the work is done.
func (c *Client) Do(ctx context.Context, key string, fn func(ctx context.Context, h *Handle) error, options *DoOptions) error {
	var o DoOptions
	if options != nil {
		o = *options
	}
	if c.observers.none() {
		_, err := c.do(ctx, key, fn, o)
		return err
	}
	start := c.clock.Now()
	ctx = c.observers.doStart(ctx, DoStartEvent{Key: key, Options: o})
	e := DoEndEvent{Key: key, Ran: true, Panicked: true}
	defer func() {
		e.Took = c.clock.Now().Sub(start)
		c.observers.doEnd(ctx, e)
	}()
	e.Ran, e.Err = c.do(ctx, key, fn, o)
	e.Panicked = false
	return e.Err
}

// do reports also whether fn was called.
func (c *Client) do(ctx context.Context, key string, fn func(ctx context.Context, h *Handle) error, o DoOptions) (ran bool, err error) {
	if o.MaxHold < 0 {
		return false, &InvalidError{Argument: "MaxHold", Problem: fmt.Sprintf("%s is negative", o.MaxHold)}
	}
	if o.MaxHold == 0 {
		o.MaxHold = c.options.MaxTTL
	}
	h, err := c.TryAcquire(ctx, key, o.TTL, o.Wait)
	if err != nil {
		return false, err
	}
	workCtx, cancel := context.WithCancelCause(h.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()

	c.renewals.keep(h, o.MaxHold)
	defer func() {
		c.renewals.drop(h)
		releaseErr := h.Release(ctx)
		if errors.Is(releaseErr, ErrLost) {
			err = errors.Join(err, releaseErr)
		}
	}()
	return true, fn(workCtx, h)
}
