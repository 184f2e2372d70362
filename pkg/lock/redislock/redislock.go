// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// granularity is the grain of Redis's expiry.
const granularity = time.Millisecond

// Driver keeps locks in a Redis server. All methods are safe for concurrent use.
type Driver struct {
	client     redis.UniversalClient
	options    Options
	operations operations
	listener   *listener
	// source is nil for a client that the application handed in.
	source   *source
	unlisted unlisted

	mu     sync.RWMutex
	closed bool
	work   sync.WaitGroup
}

var (
	_ driver.Driver        = (*Driver)(nil)
	_ driver.Waiter        = (*Driver)(nil)
	_ driver.Passer        = (*Driver)(nil)
	_ driver.BatchRenewer  = (*Driver)(nil)
	_ driver.Lister        = (*Driver)(nil)
	_ driver.ForceReleaser = (*Driver)(nil)
)

// New makes a driver on the application's own client, which stays the application's to close. A request is sent once,
// whatever the client's MaxRetries. The client should heed contexts (ContextTimeoutEnabled): otherwise a request that was given up goes on in the
// background for up to the client's ReadTimeout, and Close waits for it. It
// contacts nobody. The error is a *driver.OptionError.
func New(client redis.UniversalClient, opts *Options) (*Driver, error) {
	o, err := opts.resolve()
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, badOption("client", "is nil: give the application's client, or use FromBinding")
	}
	return &Driver{client: client, options: o, operations: newOperations(o.Operated), listener: newListener(client, o), unlisted: unlisted{clock: o.Clock}}, nil
}

// Client is the client that the driver sends its requests by, for whatever else the same user does on the same server, such as idempotency records. If
// FromBinding made it, it follows rotated passwords, sends every request once, and ends with Close.
func (d *Driver) Client() redis.UniversalClient { return d.client }

// Limits tells what durations Redis can keep.
func (d *Driver) Limits() driver.Limits {
	return driver.Limits{MinTTL: granularity, MaxTTL: d.options.MaxTTL, Granularity: granularity}
}

// Acquire makes one attempt: see driver.Driver.
func (d *Driver) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	op := d.operations.acquire
	if err := d.check(op.name, req.ID, req.TTL); err != nil {
		return driver.Grant{}, err
	}
	m := &mark{id: req.ID}
	reply, err := d.call(ctx, op, req.Key, min(d.options.AttemptTimeout, req.TTL), d.lockKeys(req.Key), m, m, req.TTL.Milliseconds(), req.Owner)
	if err != nil {
		return driver.Grant{}, err
	}
	got, err := decodeAcquire(reply)
	switch {
	case err != nil:
		return driver.Grant{}, malformed(op.name, err)
	case got.granted:
		return driver.Grant{Token: got.token, TTL: req.TTL}, nil
	case got.holder.ID == req.ID:
		// Something on the way sent the request twice, and the first answer was lost: the record is the one that this very acquire made.
		return driver.Grant{Token: got.holder.Token, TTL: req.TTL}, nil
	}
	return driver.Grant{}, &driver.HeldError{Key: req.Key.Name, Owner: got.holder.Owner, Remaining: got.remaining}
}

// Pass gives a held key to another acquisition: see driver.Passer.
func (d *Driver) Pass(ctx context.Context, req driver.PassRequest) (driver.Grant, error) {
	op, to := d.operations.pass, req.To
	if err := d.check(op.name, to.ID, to.TTL); err != nil {
		return driver.Grant{}, err
	}
	m := &mark{id: to.ID}
	reply, err := d.call(ctx, op, to.Key, min(d.options.AttemptTimeout, to.TTL), d.lockKeys(to.Key), m, m, to.TTL.Milliseconds(), to.Owner, req.From)
	if err != nil {
		return driver.Grant{}, err
	}
	got, err := decodePass(reply)
	switch {
	case err != nil:
		return driver.Grant{}, malformed(op.name, err)
	case got.granted:
		return driver.Grant{Token: got.token, TTL: to.TTL}, nil
	case got.holder.ID == to.ID:
		// As for an acquire that was sent twice.
		return driver.Grant{Token: got.holder.Token, TTL: to.TTL}, nil
	}
	return driver.Grant{}, fmt.Errorf("%s of lock %q: %w", op.name, to.Key.Name, driver.ErrNotHolder)
}

// Release frees the key and wakes waiters: see driver.Driver.
func (d *Driver) Release(ctx context.Context, req driver.ReleaseRequest) error {
	op := d.operations.release
	m := &mark{id: req.ID}
	reply, err := d.call(ctx, op, req.Key, d.options.AttemptTimeout, d.lockKeys(req.Key), m, m, redisproto.Channel(req.Key.Prefix, req.Key.Name))
	if err != nil {
		return err
	}
	return wasHolder(op.name, req.Key, reply)
}

// Subscribe tells when the key becomes free: see driver.Waiter.
func (d *Driver) Subscribe(ctx context.Context, key driver.Key) (driver.Subscription, error) {
	const op = "subscribe"
	if ctx.Err() != nil {
		return nil, ended(ctx, op, driver.ErrUnavailable)
	}
	if err := d.changed(); err != nil {
		return nil, explain(op, key.Name, false, err)
	}
	attempt, cancel := context.WithTimeout(ctx, d.options.AttemptTimeout)
	defer cancel()
	s, err := d.listener.subscribe(attempt, redisproto.Channel(key.Prefix, key.Name))
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil:
		return nil, ended(ctx, op, driver.ErrUnavailable)
	default:
		return nil, explain(op, key.Name, false, err)
	}
}

// Close ends the subscriptions and waits for the requests under way, which Options.AttemptTimeout bounds when the client heeds contexts. It closes the
// client only if FromBinding made it. It releases no lock.
func (d *Driver) Close() error {
	d.mu.Lock()
	again := d.closed
	d.closed = true
	d.mu.Unlock()
	d.listener.close()
	var err error
	if d.source != nil && !again {
		if err = d.client.Close(); err != nil {
			err = fmt.Errorf("redislock: close of the Redis client: %w", err)
		}
	}
	d.work.Wait()
	return err
}

// start runs a request, unless the driver was closed.
func (d *Driver) start(request func()) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return false
	}
	d.work.Go(request)
	return true
}

// changed reports that the binding came to name another backend.
func (d *Driver) changed() error {
	if d.source == nil {
		return nil
	}
	return d.source.failed()
}

// access is how requests are sent now. A server that was replaced by one with functions, or by one without, changes it in the binding.
func (d *Driver) access() binding.Access {
	if d.source == nil {
		return d.options.Access
	}
	return d.source.access()
}

// check refuses what the contract of a driver excludes, since the server must never see a TTL that it would cut.
func (d *Driver) check(op, id string, ttl time.Duration) error {
	var problem string
	switch {
	case ttl < granularity || ttl%granularity != 0:
		problem = fmt.Sprintf("TTL %s is not a positive whole number of milliseconds", ttl)
	case ttl > d.options.MaxTTL:
		problem = fmt.Sprintf("TTL %s is longer than the maximum %s", ttl, d.options.MaxTTL)
	case len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "":
		problem = "the acquisition id is not 32 lower-case hexadecimal digits"
	default:
		return nil
	}
	return &driver.StoreError{
		Outcome: driver.ErrUnavailable, Op: op, Reason: ReasonBadRequest, Err: errors.New(problem), Remedy: "use package lock, which keeps to the limits of the driver", Lasting: true,
	}
}

func wasHolder(op string, key driver.Key, reply any) error {
	held, err := decodeHeld(reply)
	switch {
	case err != nil:
		return malformed(op, err)
	case !held:
		return fmt.Errorf("%s of lock %q: %w", op, key.Name, driver.ErrNotHolder)
	}
	return nil
}
