// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// space is what a driver knows about the locks of one prefix: when it received their versions, and who waits for them. Its watch feeds both.
type space struct {
	driver *Driver
	prefix string

	mu           sync.Mutex
	observations leaseformat.Observations
	subscribers  map[string]map[*subscription]struct{} // by name of the Lease
	// established is true while a watch runs; fault is why the last one ended or could not start. changed is closed, and made anew, when
	// either changes.
	established bool
	fault       error
	changed     chan struct{}
}

// maxUnwatched bounds the observations that are kept while no watch says which Leases are gone.
const maxUnwatched = 10_000

func newSpace(d *Driver, prefix string) *space {
	return &space{driver: d, prefix: prefix, subscribers: map[string]map[*subscription]struct{}{}, changed: make(chan struct{})}
}

// see records that a version was received just now, and returns how long it must still stay unchanged before the Lease is abandoned.
func (s *space) see(record leaseformat.Record) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.established && s.observations.Len() >= maxUnwatched {
		// Starting over costs patience, never safety.
		s.observations = leaseformat.Observations{}
	}
	return s.observations.See(record, s.driver.clock.Now())
}

// received records a Lease that an answer or the watch brought.
func (s *space) received(lease *coordinationv1.Lease) {
	if record, err := leaseformat.Parse(lease); err == nil {
		s.see(record)
	}
}

func (s *space) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observations.Forget(uid)
}

func (s *space) wake(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for subscriber := range s.subscribers[name] {
		subscriber.notify()
	}
}

// setEstablished wakes everybody when a watch starts: something may have been missed while there was none.
func (s *space) setEstablished(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		s.driver.log.InfoContext(ctx, "watch of the Leases is back", "namespace", s.driver.namespace, "prefix", s.prefix)
	}
	s.established, s.fault = true, nil
	s.announce()
	for _, subscribers := range s.subscribers {
		for subscriber := range subscribers {
			subscriber.notify()
		}
	}
}

func (s *space) setInterrupted(ctx context.Context, fault error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		s.driver.log.WarnContext(ctx, "watch of the Leases is interrupted: waiters poll, and a holder whose Lease is changed by hand learns it at its next renewal",
			"namespace", s.driver.namespace, "prefix", s.prefix, "error", fault)
	}
	s.established, s.fault = false, fault
	s.announce()
}

func (s *space) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Subscribe returns once the watch of the key's prefix runs: whatever happens to the key from then on is told.
func (d *Driver) Subscribe(ctx context.Context, key driver.Key) (driver.Subscription, error) {
	const op = "subscribe"
	s, err := d.space(op, key.Prefix)
	if err != nil {
		return nil, err
	}
	subscriber := s.add(leaseformat.Name(key.Prefix, key.Name))
	if err := s.await(ctx, op); err != nil {
		subscriber.Close()
		return nil, err
	}
	return subscriber, nil
}

func (s *space) await(ctx context.Context, op string) error {
	for {
		s.mu.Lock()
		established, fault, changed := s.established, s.fault, s.changed
		s.mu.Unlock()
		switch {
		case established:
			return nil
		case fault != nil:
			return s.driver.unexpected(op, false, fault)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: "context", Err: driver.ContextError(ctx)}
		case <-s.driver.ctx.Done():
			return &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: "closed", Err: context.Cause(s.driver.ctx)}
		}
	}
}

// subscription is one waiter for one Lease.
type subscription struct {
	space *space
	name  string
	woken chan struct{}
}

func (s *space) add(name string) *subscription {
	subscriber := &subscription{space: s, name: name, woken: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribers[name] == nil {
		s.subscribers[name] = map[*subscription]struct{}{}
	}
	s.subscribers[name][subscriber] = struct{}{}
	return subscriber
}

// notify coalesces: one value waiting is as good as many.
func (u *subscription) notify() {
	select {
	case u.woken <- struct{}{}:
	default:
	}
}

func (u *subscription) Wake() <-chan struct{} { return u.woken }

func (u *subscription) Close() {
	u.space.mu.Lock()
	defer u.space.mu.Unlock()
	delete(u.space.subscribers[u.name], u)
	if len(u.space.subscribers[u.name]) == 0 {
		delete(u.space.subscribers, u.name)
	}
}
