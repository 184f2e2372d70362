// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memlock keeps locks in the memory of one process, for tests and tools that run as a single replica. It honours the TTL like the
// other backends and keys on the exact key. It excludes nobody outside the process: choose it explicitly, nothing falls back to it.
//
// Assumptions: one process. Tokens grow for the life of a Driver; a restart begins again at epoch 1, so never
// hand a token of memlock to a resource that outlives the process.
package memlock

import (
	"context"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Options are what New can be told. The zero value, or nil, is ready to use.
type Options struct {
	// Clock runs the TTLs. Defaults to clock.Boot.
	Clock clock.Clock
}

// Driver is a store of locks. Clients that share a Driver exclude each other. It is safe for concurrent use.
type Driver struct {
	clock clock.Clock

	mu       sync.Mutex
	sequence uint64
	records  map[driver.Key]record
	waiting  map[driver.Key]map[*subscription]struct{}
}

var (
	_ driver.Driver        = (*Driver)(nil)
	_ driver.Waiter        = (*Driver)(nil)
	_ driver.Passer        = (*Driver)(nil)
	_ driver.Lister        = (*Driver)(nil)
	_ driver.ForceReleaser = (*Driver)(nil)
)

type record struct {
	id      string
	owner   string
	token   driver.Token
	since   time.Time
	onLost  func(error)
	expires clock.Instant
}

func (r record) holding(now clock.Instant) driver.Holding {
	return driver.Holding{Held: true, ID: r.id, Owner: r.owner, Token: r.token, Since: r.since, Remaining: r.expires.Sub(now)}
}

// New makes an empty store.
func New(options *Options) *Driver {
	d := &Driver{
		clock:   clock.Boot(),
		records: make(map[driver.Key]record),
		waiting: make(map[driver.Key]map[*subscription]struct{}),
	}
	if options != nil && options.Clock != nil {
		d.clock = options.Clock
	}
	return d
}

// Limits implements driver.Driver: any TTL up to a year, to the nanosecond.
func (d *Driver) Limits() driver.Limits {
	return driver.Limits{MinTTL: 1, MaxTTL: 365 * 24 * time.Hour, Granularity: 1}
}

// Acquire implements driver.Driver.
func (d *Driver) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	if err := ended(ctx, "acquire"); err != nil {
		return driver.Grant{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	if r, held := d.holder(req.Key, now); held {
		return driver.Grant{}, &driver.HeldError{Key: req.Key.Name, Owner: r.owner, Remaining: r.expires.Sub(now)}
	}
	return d.grant(req, now), nil
}

// Pass implements driver.Passer.
func (d *Driver) Pass(ctx context.Context, req driver.PassRequest) (driver.Grant, error) {
	if err := ended(ctx, "pass"); err != nil {
		return driver.Grant{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	if r, held := d.holder(req.To.Key, now); !held || r.id != req.From {
		return driver.Grant{}, driver.ErrNotHolder
	}
	return d.grant(req.To, now), nil
}

// grant records a new holder; d.mu is held.
func (d *Driver) grant(req driver.AcquireRequest, now clock.Instant) driver.Grant {
	d.sequence++
	token := driver.Token{Epoch: 1, Sequence: d.sequence}
	d.records[req.Key] = record{
		id: req.ID, owner: req.Owner, token: token, onLost: req.OnLost, expires: now.Add(req.TTL),
		since: time.Now(), //nolint:forbidigo // For display.
	}
	return driver.Grant{Token: token, TTL: req.TTL}
}

// Renew implements driver.Driver.
func (d *Driver) Renew(ctx context.Context, req driver.RenewRequest) (driver.Renewal, error) {
	if err := ended(ctx, "renew"); err != nil {
		return driver.Renewal{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	r, held := d.holder(req.Key, now)
	if !held || r.id != req.ID {
		return driver.Renewal{}, driver.ErrNotHolder
	}
	r.expires = now.Add(req.TTL)
	d.records[req.Key] = r
	return driver.Renewal{TTL: req.TTL}, nil
}

// Release implements driver.Driver.
func (d *Driver) Release(ctx context.Context, req driver.ReleaseRequest) error {
	if err := ended(ctx, "release"); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, held := d.holder(req.Key, d.clock.Now())
	if !held || r.id != req.ID {
		return driver.ErrNotHolder
	}
	d.free(req.Key)
	return nil
}

// free forgets the holder and wakes the waiters; d.mu is held.
func (d *Driver) free(key driver.Key) {
	delete(d.records, key)
	for s := range d.waiting[key] {
		s.signal()
	}
}

// Inspect implements driver.Driver.
func (d *Driver) Inspect(ctx context.Context, key driver.Key) (driver.Holding, error) {
	if err := ended(ctx, "inspect"); err != nil {
		return driver.Holding{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	r, held := d.holder(key, now)
	if !held {
		return driver.Holding{}, nil
	}
	return r.holding(now), nil
}

// Close implements driver.Driver; there is nothing to end.
func (d *Driver) Close() error { return nil }

// holder returns the record that holds key now, and forgets one that ran out; d.mu is held.
func (d *Driver) holder(key driver.Key, now clock.Instant) (record, bool) {
	r, ok := d.records[key]
	if ok && now >= r.expires {
		delete(d.records, key)
		ok = false
	}
	return r, ok
}

func ended(ctx context.Context, op string) error {
	if err := driver.ContextError(ctx); err != nil {
		return &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: "context", Err: err}
	}
	return nil
}
