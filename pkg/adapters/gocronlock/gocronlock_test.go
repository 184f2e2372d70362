// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package gocronlock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/adapters/gocronlock"
	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience   = 30 * time.Second
	testPrefix = "lk:{test/one}:"
)

var start = time.Date(2026, 5, 4, 12, 0, 30, 0, time.UTC)

// storeClock is the clock of the store and of the lock clients; the schedulers have clocks of their own.
type storeClock struct{ fake *clockwork.FakeClock }

func (c storeClock) Now() clock.Instant { return clock.Instant(c.fake.Since(start)) }

func (c storeClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return storeTimer{c.fake.AfterFunc(d, f)}
}

func (c storeClock) NewTimer(d time.Duration) clock.Timer { return storeTimer{c.fake.NewTimer(d)} }

type storeTimer struct{ timer clockwork.Timer }

func (t storeTimer) C() <-chan time.Time { return t.timer.Chan() }
func (t storeTimer) Stop() bool          { return t.timer.Stop() }

// replica is one process of the application with its scheduler.
type replica struct {
	clock  *clockwork.FakeClock
	locker *gocronlock.Locker
	// outcomes has what came of each tick; refusals what gocron told of each that was not run.
	outcomes chan exclusive.Outcome
	refusals chan error
}

// newReplica makes one whose wall clock is ahead by skew, with a job that runs every minute.
func newReplica(t *testing.T, d driver.Driver, c clock.Clock, skew, minHold time.Duration, job any) *replica {
	t.Helper()
	client, err := lock.New(d, testPrefix, &lock.Options{Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{clock: clockwork.NewFakeClockAt(start.Add(skew)), outcomes: make(chan exclusive.Outcome, 1), refusals: make(chan error, 1)}
	runner, err := exclusive.New(client, &exclusive.Options{Now: r.clock.Now, OnOutcome: func(_ context.Context, e exclusive.Event) { r.outcomes <- e.Outcome }})
	if err != nil {
		t.Fatal(err)
	}
	r.locker, err = gocronlock.New(runner, minHold, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := gocron.NewScheduler(gocron.WithClock(r.clock), gocron.WithLocation(time.UTC), gocron.WithDistributedLocker(r.locker))
	if err != nil {
		t.Fatal(err)
	}
	listeners := gocron.WithEventListeners(
		gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { r.refusals <- err }),
		gocron.AfterJobRunsWithPanic(func(uuid.UUID, string, any) {}),
	)
	if _, err := s.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(job), gocron.WithName("report"), listeners); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Errorf("shutdown of the scheduler: %v", err)
		}
		_ = client.Close(context.Background())
	})
	return r
}

// tick lets a minute of the replica's clock pass, and returns what came of the job.
func (r *replica) tick(t *testing.T) exclusive.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.clock.BlockUntilContext(ctx, 1); err != nil {
		t.Fatalf("the scheduler set no timer: %v", err)
	}
	r.clock.Advance(time.Minute)
	select {
	case outcome := <-r.outcomes:
		return outcome
	case <-ctx.Done():
		t.Fatal("nothing came of the tick")
		return ""
	}
}

func (r *replica) refusal(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.refusals:
		return err
	case <-time.NewTimer(patience).C:
		t.Fatal("gocron told of no refusal")
		return nil
	}
}

func newStore() (*memlock.Driver, storeClock) {
	c := storeClock{clockwork.NewFakeClockAt(start)}
	return memlock.New(&memlock.Options{Clock: c}), c
}

func TestOneRunPerMinuteOnThreeReplicas(t *testing.T) {
	for name, tc := range map[string]struct {
		minHold time.Duration
		want    int32
	}{
		"minimum hold": {45 * time.Second, 4},
		// The fault that the hold is for: the ticks are farther apart.
		"too short a hold": {100 * time.Millisecond, 12},
	} {
		t.Run(name, func(t *testing.T) {
			store, c := newStore()
			var runs atomic.Int32
			var all []*replica
			for _, skew := range []time.Duration{0, 2 * time.Second, -3 * time.Second} {
				all = append(all, newReplica(t, store, c, skew, tc.minHold, func() { runs.Add(1) }))
			}
			for minute := range 4 {
				for i := range all {
					r := all[(i+minute)%len(all)]
					outcome := r.tick(t)
					if outcome.Skipped() {
						if err := r.refusal(t); !errors.Is(err, lock.ErrHeld) || !strings.Contains(err.Error(), `job "report" skipped`) {
							t.Errorf("gocron was told %v", err)
						}
					} else if outcome != exclusive.Ran {
						t.Errorf("outcome %q", outcome)
					}
					c.fake.Advance(300 * time.Millisecond)
				}
				c.fake.Advance(time.Minute - 900*time.Millisecond)
			}
			if n := runs.Load(); n != tc.want {
				t.Errorf("%d runs in 4 minutes, want %d", n, tc.want)
			}
		})
	}
}

func TestJobThatPanicsKeepsItsHold(t *testing.T) {
	store, c := newStore()
	a := newReplica(t, store, c, 0, 45*time.Second, func() { panic("no paper") })
	b := newReplica(t, store, c, 0, 45*time.Second, func() {})
	if outcome := a.tick(t); outcome != exclusive.Ran {
		t.Errorf("outcome %q", outcome)
	}
	if outcome := b.tick(t); outcome != exclusive.SkippedHeld {
		t.Errorf("outcome %q after the panic of another replica", outcome)
	}
	c.fake.Advance(time.Minute)
	if outcome := b.tick(t); outcome != exclusive.Ran {
		t.Errorf("outcome %q a minute later", outcome)
	}
}

// unreachable is a store that is down.
type unreachable struct{ driver.Driver }

func (unreachable) Acquire(context.Context, driver.AcquireRequest) (driver.Grant, error) {
	return driver.Grant{}, &driver.StoreError{Outcome: driver.ErrUnavailable, Op: "acquire", Reason: "test"}
}

func TestStoreThatIsDownIsNoSkip(t *testing.T) {
	store, c := newStore()
	r := newReplica(t, unreachable{store}, c, 0, 45*time.Second, func() { t.Error("the job ran") })
	for range 2 {
		if outcome := r.tick(t); outcome != exclusive.NotRun {
			t.Errorf("outcome %q", outcome)
		}
		if err := r.refusal(t); !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrHeld) {
			t.Errorf("gocron was told %v", err)
		}
	}
}

// newLocker makes one without a scheduler.
func newLocker(t *testing.T, d driver.Driver, c clock.Clock) (*gocronlock.Locker, *lock.Client) {
	t.Helper()
	client, err := lock.New(d, testPrefix, &lock.Options{Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	runner, err := exclusive.New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	locker, err := gocronlock.New(runner, 45*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	return locker, client
}

// A scheduler that shuts down ends the job's context while the job is still running.
func TestShutdownDoesNotFreeTheJob(t *testing.T) {
	store, c := newStore()
	locker, client := newLocker(t, store, c)
	shutdown := errors.New("the scheduler shuts down")
	ctx, cancel := context.WithCancelCause(t.Context())
	l, err := locker.Lock(ctx, "report")
	if err != nil {
		t.Fatal(err)
	}
	cancel(shutdown)
	if _, err := locker.Lock(t.Context(), "report"); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("lock of a job that runs: %v", err)
	}
	for range 2 {
		if err := l.Unlock(ctx); err != nil {
			t.Errorf("unlock on a cancelled context: %v", err)
		}
	}
	holding, err := client.Inspect(t.Context(), "job:report")
	if err != nil {
		t.Fatal(err)
	}
	// The wall clock of the runner went on a little meanwhile.
	if holding.Remaining > 45*time.Second || holding.Remaining < 45*time.Second-patience {
		t.Errorf("the job stays locked for %s, want its minimum hold", holding.Remaining)
	}
	if _, err := locker.Lock(ctx, "other"); !errors.Is(err, context.Canceled) || !errors.Is(err, shutdown) {
		t.Errorf("lock on a cancelled context: %v", err)
	}
}

func TestUnlockTellsOfALoss(t *testing.T) {
	store, c := newStore()
	locker, client := newLocker(t, store, c)
	l, err := locker.Lock(t.Context(), "report")
	if err != nil {
		t.Fatal(err)
	}
	holding, err := client.Inspect(t.Context(), "job:report")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Release(t.Context(), driver.ReleaseRequest{Key: driver.Key{Prefix: testPrefix, Name: "job:report"}, ID: holding.ID}); err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("unlock of a lock that was lost: %v", err)
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	client, err := lock.New(memlock.New(nil), testPrefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	runner, err := exclusive.New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	for argument, tc := range map[string]struct {
		runner  *exclusive.Runner
		minHold time.Duration
		options *gocronlock.Options
	}{
		"runner":           {nil, time.Minute, nil},
		"minHold":          {runner, 0, nil},
		"minHold negative": {runner, -1, nil},
		"MinHold too long": {runner, client.MaxTTL() + 1, nil},
		"MaxHold":          {runner, time.Minute, &gocronlock.Options{MaxHold: -1}},
		"TTL":              {runner, time.Minute, &gocronlock.Options{TTL: 1}},
	} {
		_, err := gocronlock.New(tc.runner, tc.minHold, tc.options)
		if invalid, ok := errors.AsType[*lock.InvalidError](err); !ok || !strings.HasPrefix(argument, invalid.Argument) {
			t.Errorf("%s: error is %v, want a *lock.InvalidError for it", argument, err)
		}
	}
}
