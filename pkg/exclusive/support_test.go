// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package exclusive_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

const testPrefix = "lk:{test/one}:"

// store is a memlock that a test can make fail. The hooks run before a request is passed on.
type store struct {
	*memlock.Driver
	beforeAcquire func(req driver.AcquireRequest) error
	beforeRenew   atomic.Pointer[func() error]
}

func (s *store) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	if s.beforeAcquire != nil {
		if err := s.beforeAcquire(req); err != nil {
			return driver.Grant{}, err
		}
	}
	return s.Driver.Acquire(ctx, req)
}

func (s *store) Renew(ctx context.Context, req driver.RenewRequest) (driver.Renewal, error) {
	if hook := s.beforeRenew.Load(); hook != nil {
		if err := (*hook)(); err != nil {
			return driver.Renewal{}, err
		}
	}
	return s.Driver.Renew(ctx, req)
}

func (s *store) failRenewals() {
	fail := func() error {
		return &driver.StoreError{Outcome: driver.ErrUnavailable, Op: "renew", Reason: "test"}
	}
	s.beforeRenew.Store(&fail)
}

// remove takes a record out by hand.
func (s *store) remove(name string) error {
	key := driver.Key{Prefix: testPrefix, Name: name}
	holding, err := s.Inspect(context.Background(), key)
	if err != nil {
		return err
	}
	return s.Release(context.Background(), driver.ReleaseRequest{Key: key, ID: holding.ID})
}

// newStore makes a store on the fake clock of the synctest bubble.
func newStore() *store {
	return &store{Driver: memlock.New(&memlock.Options{Clock: clock.Monotonic()})}
}

// replica is one process of the application.
type replica struct {
	*exclusive.Runner
	client *lock.Client
	// skew is by how much its wall clock is ahead.
	skew time.Duration
	logs *bytes.Buffer

	mu     sync.Mutex
	events []exclusive.Event
}

func newReplica(t *testing.T, d driver.Driver, skew time.Duration) *replica {
	t.Helper()
	r := &replica{skew: skew, logs: &bytes.Buffer{}}
	client, err := lock.New(d, testPrefix, &lock.Options{Clock: clock.Monotonic()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	r.client = client
	r.Runner, err = exclusive.New(client, &exclusive.Options{
		Now:    r.now,
		Logger: slog.New(slog.NewTextHandler(r.logs, nil)),
		OnOutcome: func(_ context.Context, e exclusive.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *replica) now() time.Time { return time.Now().Add(r.skew) }

// last is what the observer was told last.
func (r *replica) last() exclusive.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) == 0 {
		return exclusive.Event{}
	}
	return r.events[len(r.events)-1]
}

// want runs fn and fails unless the outcome is as wanted.
func (r *replica) want(t *testing.T, want exclusive.Outcome, fn func(context.Context, *lock.Handle) error, o *exclusive.JobOptions) {
	t.Helper()
	_ = r.wantError(t, want, fn, o)
}

// wantError runs fn and fails unless the outcome is as wanted, for the caller and for the observer, and has an error if it should.
func (r *replica) wantError(t *testing.T, want exclusive.Outcome, fn func(context.Context, *lock.Handle) error, o *exclusive.JobOptions) error {
	t.Helper()
	outcome, err := r.RunExclusive(t.Context(), "report", fn, o)
	if outcome != want {
		t.Errorf("outcome is %q (error %v), want %q", outcome, err, want)
	}
	if e := r.last(); e.Outcome != outcome || e.Job != "report" {
		t.Errorf("the observer was told %+v, want job report with outcome %q", e, outcome)
	}
	if succeeded := outcome == exclusive.Ran || outcome.Skipped(); succeeded != (err == nil) {
		t.Errorf("outcome %q with error %v", outcome, err)
	}
	return err
}

// free fails unless nobody holds the key.
func (r *replica) free(t *testing.T, key string) {
	t.Helper()
	if left := r.remaining(t, key); left != 0 {
		t.Errorf("key %q stays locked for %s, want it free", key, left)
	}
}

func (r *replica) remaining(t *testing.T, key string) time.Duration {
	t.Helper()
	holding, err := r.client.Inspect(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return holding.Remaining
}

func work(context.Context, *lock.Handle) error { return nil }

func taking(d time.Duration) func(context.Context, *lock.Handle) error {
	return func(context.Context, *lock.Handle) error {
		<-time.NewTimer(d).C
		return nil
	}
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	<-time.NewTimer(d).C
	synctest.Wait()
}
