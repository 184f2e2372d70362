// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Client takes locks of one lock namespace in one store. It is safe for concurrent use; make one for a process and close it at
// the end.
type Client struct {
	driver  driver.Driver
	waiter  driver.Waiter // nil if the store does not notify
	passer  driver.Passer // nil if the store cannot pass a lock on
	limits  driver.Limits
	prefix  string
	options Options
	clock   clock.Clock
	log     *slog.Logger
	// observers are called outside of all mutexes.
	observers observers
	queues    queues
	cleanup   cleanup
	// renewals is for the handles of Do.
	renewals renewals
	losses   lossLog

	mu      sync.Mutex
	held    map[*Handle]struct{}
	failure error         // set once, by Fail or Close
	failed  chan struct{} // closed when failure is set
}

// New makes a client of the lock namespace whose keys start with prefix, over a driver. Every replica of the application must give the
// same prefix. Most programs get a Client from lockstead.Open or redislock.FromBinding, which know driver and prefix from the
// mounted binding.
//
// The client does not own the driver: close the client first, then the driver. Errors are *InvalidError.
func New(d driver.Driver, prefix string, options *Options) (*Client, error) {
	if prefix == "" {
		return nil, &InvalidError{Argument: "prefix", Problem: "is empty: applications that share a store need prefixes that tell them apart"}
	}
	limits := d.Limits()
	waiter, _ := d.(driver.Waiter)
	passer, _ := d.(driver.Passer)
	resolved, err := options.resolve(limits, waiter != nil)
	if err != nil {
		return nil, err
	}
	c := &Client{
		driver:    d,
		waiter:    waiter,
		passer:    passer,
		limits:    limits,
		prefix:    prefix,
		options:   resolved,
		clock:     resolved.Clock,
		log:       resolved.Logger,
		observers: newObservers(resolved.Observers, resolved.Logger),
		held:      make(map[*Handle]struct{}),
		failed:    make(chan struct{}),
	}
	c.queues.init()
	c.cleanup.init(c)
	c.renewals.init(c)
	return c, nil
}

// TryAcquire asks for key and waits up to wait for it.
//
// With wait 0 it makes one attempt and never blocks because the key is held. TTL 0 means Options.DefaultTTL; a TTL that
// the store cannot keep exactly is rounded up to its grain. The wait counts from the call, and bounds the time spent while others hold
// the key; a request that is under way when it ends is let finish, for at most Options.AttemptTimeout.
//
// Errors: *HeldError (ErrHeld) when somebody else holds the key at the end of the wait; ErrUnavailable, ErrUnknown or ErrForeign
// for faults of the store; an error that matches the context's error and its cause when ctx ended; *InvalidError; ErrBackendChanged; ErrClosed.
// A fault at the first attempt is returned at once. When the key was found held before, faults that may pass are retried
// until the wait ends.
//
// The handle lives for ttl, from MinTTL to Options.MaxTTL, and is not renewed by itself: call Handle.Renew, or use Do, for work that may take longer. It
// does not end with ctx; its own context ends with the lock. See Handle.Context for how a loss is told.
//
// The lock is not reentrant: a caller that holds key and asks again waits for itself and then fails.
func (c *Client) TryAcquire(ctx context.Context, key string, ttl, wait time.Duration) (*Handle, error) {
	return c.observedAcquire(ctx, key, ttl, wait, false)
}

// Acquire is TryAcquire for callers that cannot go on without the lock: a wait of 0 is refused, and a wait that ends without the lock is a
// *WaitTimeoutError, which matches ErrHeld. All else is as for TryAcquire.
func (c *Client) Acquire(ctx context.Context, key string, ttl, wait time.Duration) (*Handle, error) {
	return c.observedAcquire(ctx, key, ttl, wait, true)
}

// Fail ends the client because its backend is not the right one any more: every handle is lost, waiters return, and every later call returns cause.
// lockstead.Open calls it with ErrBackendChanged when the binding names another backend.
func (c *Client) Fail(cause error) {
	for _, h := range c.fail(cause) {
		h.lose(LossBackendChanged, cause)
	}
}

// Close makes every later call return ErrClosed and waits, until ctx ends, for releases and renewals that are under way in the
// background, and for the log records of lost locks. Afterwards none is written. It does not release handles that are still held, since the work under them may still run: release them first. If any is
// left, Close says so, and they go on until they are released or their TTL ends. Close may be called again, for example with more time.
func (c *Client) Close(ctx context.Context) error {
	held := c.fail(ErrClosed)
	err := errors.Join(c.renewals.close(ctx), c.cleanup.close(ctx), c.losses.close(ctx))
	if len(held) > 0 {
		err = errors.Join(err, fmt.Errorf("lock: closed with %d handles held; they end by their TTL", len(held)))
	}
	return err
}

// fail sets the failure if there is none and returns the handles that are held.
func (c *Client) fail(cause error) []*Handle {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = cause
		close(c.failed)
	}
	held := make([]*Handle, 0, len(c.held))
	for h := range c.held {
		held = append(held, h)
	}
	return held
}

func (c *Client) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// register records a handle as held; it refuses when the client has failed meanwhile.
func (c *Client) register(h *Handle) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return c.failure
	}
	c.held[h] = struct{}{}
	return nil
}

func (c *Client) unregister(h *Handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, h)
}

func (c *Client) qualify(key string) driver.Key { return driver.Key{Prefix: c.prefix, Name: key} }

// newID makes an acquisition id: 128 random bits. crypto/rand.Read never fails.
func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// tellContexts keeps two contexts apart: when the caller's ctx has ended, the error matches its error and its cause; when only the time-out of
// the attempt has, the error matches no context error, since the caller's context is alive.
func tellContexts(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		if errors.Is(err, ctxErr) && errors.Is(err, context.Cause(ctx)) {
			return err
		}
		return fmt.Errorf("%w (%w)", err, driver.ContextError(ctx))
	}
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	hidden := StoreError{Outcome: ErrUnknown, Op: op, Reason: "timeout", Err: err}
	if store, ok := errors.AsType[*StoreError](err); ok {
		hidden = *store
	}
	if hidden.Reason == "context" { // To the driver, the time-out is its caller's.
		hidden.Reason = "timeout"
	}
	if hidden.Err != nil {
		hidden.Err = errors.New(hidden.Err.Error())
	}
	return &hidden
}
