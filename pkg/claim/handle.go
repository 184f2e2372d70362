// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// work runs the handler on one row, and ends the claim by how that went. work ends with the drain time.
func (w *Worker[T]) work(work context.Context, c *Claim[T]) {
	stopKeeping := c.Keep()
	ctx, cancel := context.WithCancelCause(c.Context())
	defer cancel(ErrEnded)
	give := func(cause error) {
		stopKeeping()
		cancel(cause)
	}
	defer context.AfterFunc(work, func() { give(context.Cause(work)) })()
	limit := w.clock.AfterFunc(w.options.MaxRun, func() { give(ErrMaxRun) })
	err := w.handle(ctx, c)
	limit.Stop()
	w.settle(work, ctx, c, err)
}

// handle calls the handler and turns a panic into an error.
func (w *Worker[T]) handle(ctx context.Context, c *Claim[T]) (err error) {
	done := make(chan struct{})
	// A goroutine of its own, since a handler that calls runtime.Goexit ends the one that it runs in.
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if returned {
				return
			}
			err = &PanicError{Value: recover(), Stack: debug.Stack()}
		}()
		err = w.handler(ctx, c)
		returned = true
	}()
	<-done
	return err
}

// settle completes the row or gives it back. What is sent does not end with the handler's context.
func (w *Worker[T]) settle(work, ctx context.Context, c *Claim[T], err error) {
	store := context.WithoutCancel(work)
	if err == nil {
		if err = w.complete(store, c); err == nil {
			c.finish()
			return
		}
	}
	w.report(store, c, tellCause(ctx, err))
	if c.isGone() {
		return // There is nothing to give back, and the loss is told.
	}
	if errors.Is(context.Cause(ctx), ErrDraining) {
		err = c.Release(store)
	} else {
		err = c.ReleaseAfter(store, w.options.Backoff.After(c.attempt, w.options.Random()))
	}
	if err != nil {
		w.report(store, c, err)
	}
}

// tellCause adds why the handler's context ended, since handlers tend to return no more than context.Canceled.
func tellCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (the handler's context ended: %w)", err, cause)
	}
	return err
}

func (w *Worker[T]) complete(ctx context.Context, c *Claim[T]) error {
	if c.isSettled() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.table.options.AttemptTimeout)
	defer cancel()
	return c.Complete(ctx, w.table.db)
}
