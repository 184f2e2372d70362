// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package cronlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/adapters/cronlock"
	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// replica is one process of the application.
type replica struct {
	*cronlock.Jobs
	cron  *cron.Cron
	store driver.Driver

	mu       sync.Mutex
	outcomes map[exclusive.Outcome]int
	errors   []error
}

// newReplica makes one on the clock of the synctest bubble. Its runs begin late after their time.
func newReplica(t *testing.T, d driver.Driver, late time.Duration) *replica {
	t.Helper()
	client, err := lock.New(d, "lk:{test/one}:", &lock.Options{Clock: clock.Monotonic()})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{store: d, outcomes: map[exclusive.Outcome]int{}}
	runner, err := exclusive.New(client, &exclusive.Options{OnOutcome: func(_ context.Context, e exclusive.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.outcomes[e.Outcome]++
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.Jobs, err = cronlock.New(t.Context(), runner, &cronlock.Options{OnError: func(_ context.Context, _ string, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errors = append(r.errors, err)
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.cron = cron.New(cron.WithLocation(time.UTC), cron.WithChain(cron.Recover(cron.DiscardLogger), func(j cron.Job) cron.Job {
		return cron.FuncJob(func() {
			<-time.NewTimer(late).C
			j.Run()
		})
	}))
	t.Cleanup(func() {
		<-r.cron.Stop().Done()
		_ = client.Close(context.Background())
	})
	return r
}

func newStore() *memlock.Driver { return memlock.New(&memlock.Options{Clock: clock.Monotonic()}) }

// replicas are three whose ticks are apart, all running.
func replicas(t *testing.T, d driver.Driver) []*replica {
	t.Helper()
	var all []*replica
	for _, late := range []time.Duration{0, 300 * time.Millisecond, 1500 * time.Millisecond} {
		r := newReplica(t, d, late)
		r.cron.Start()
		all = append(all, r)
	}
	return all
}

// untilHalf ends at second 30 of a minute, from where the first tick is half a minute away.
func untilHalf(t *testing.T) {
	t.Helper()
	now := time.Now()
	<-time.NewTimer(now.Truncate(time.Minute).Add(90 * time.Second).Sub(now)).C
}

func sleep(d time.Duration) { <-time.NewTimer(d).C }

func TestOneRunPerTimeOfTheSchedule(t *testing.T) {
	type job struct{ runs *atomic.Int32 }
	for name, tc := range map[string]struct {
		add  func(t *testing.T, r *replica, j job) error
		want int32
	}{
		// The fault that the adapter is for: a lock alone is free again before the next replica ticks.
		"a lock alone": {func(t *testing.T, r *replica, j job) error {
			client, err := lock.New(r.store, "lk:{test/two}:", &lock.Options{Clock: clock.Monotonic()})
			if err != nil {
				return err
			}
			_, err = r.cron.AddFunc("* * * * *", func() {
				err := client.Do(t.Context(), "report", func(context.Context, *lock.Handle) error { j.runs.Add(1); sleep(10 * time.Millisecond); return nil }, nil)
				if err != nil {
					t.Error(err)
				}
			})
			return err
		}, 15},
		"AddFunc": {func(_ *testing.T, r *replica, j job) error {
			_, err := r.AddFunc(r.cron, "* * * * *", "report", func(context.Context) error { j.runs.Add(1); sleep(10 * time.Millisecond); return nil }, nil)
			return err
		}, 5},
		"AddFunc every so often": {func(_ *testing.T, r *replica, j job) error {
			_, err := r.AddFunc(r.cron, "@every 1m", "report", func(context.Context) error { j.runs.Add(1); return nil }, &exclusive.JobOptions{MinHold: 50 * time.Second})
			return err
		}, 5},
		"Wrapper": {func(_ *testing.T, r *replica, j job) error {
			schedule, err := cron.ParseStandard("* * * * *")
			if err != nil {
				return err
			}
			wrapper, err := r.Wrapper("report", schedule, time.UTC, nil)
			if err == nil {
				r.cron.Schedule(schedule, wrapper(cron.FuncJob(func() { j.runs.Add(1) })))
			}
			return err
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				untilHalf(t)
				var runs atomic.Int32
				all := replicas(t, newStore())
				for _, r := range all {
					if err := tc.add(t, r, job{&runs}); err != nil {
						t.Fatal(err)
					}
				}
				sleep(5*time.Minute + 2*time.Second)
				synctest.Wait()
				if n := runs.Load(); n != tc.want {
					t.Errorf("%d runs in 5 minutes, want %d", n, tc.want)
				}
				for _, r := range all {
					if len(r.errors) > 0 {
						t.Errorf("errors: %v", r.errors)
					}
				}
			})
		})
	}
}

func TestErrorsOfARun(t *testing.T) {
	failure := errors.New("no paper")
	for name, tc := range map[string]struct {
		late    time.Duration
		down    bool
		job     func(ctx context.Context) error
		outcome exclusive.Outcome
		want    func(err error) bool
	}{
		"job fails":  {job: func(context.Context) error { return failure }, outcome: exclusive.Failed, want: func(err error) bool { return errors.Is(err, failure) }},
		"job panics": {job: func(context.Context) error { panic(failure) }, outcome: exclusive.Panicked},
		"lock lost": {
			job:     func(ctx context.Context) error { <-ctx.Done(); return nil },
			outcome: exclusive.Lost, want: func(err error) bool { return errors.Is(err, lock.ErrLost) },
		},
		"too late": {late: 90 * time.Second, outcome: exclusive.Refused, want: func(err error) bool {
			refused, ok := errors.AsType[*exclusive.SlotError](err)
			return ok && refused.Late == 90*time.Second
		}},
		"store down": {down: true, outcome: exclusive.NotRun, want: func(err error) bool { return errors.Is(err, lock.ErrUnavailable) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				untilHalf(t)
				var d driver.Driver = newStore()
				if tc.down {
					d = unreachable{d}
				}
				r := newReplica(t, d, tc.late)
				r.cron.Start()
				// At minute 0 of an hour, the next one being far.
				now := time.Now().UTC()
				at := now.Truncate(time.Minute).Add(time.Minute)
				job := tc.job
				if job == nil {
					job = func(context.Context) error { t.Error("the job ran"); return nil }
				}
				if _, err := r.AddFunc(r.cron, at.Format("4 15 2 1 *"), "report", job, &exclusive.JobOptions{MaxHold: time.Minute}); err != nil {
					t.Fatal(err)
				}
				sleep(5 * time.Minute)
				synctest.Wait()
				if r.outcomes[tc.outcome] != 1 || len(r.outcomes) != 1 {
					t.Errorf("outcomes %v, want one %q", r.outcomes, tc.outcome)
				}
				switch {
				case tc.want == nil && len(r.errors) > 0:
					t.Errorf("errors: %v", r.errors)
				case tc.want != nil && (len(r.errors) != 1 || !tc.want(r.errors[0])):
					t.Errorf("errors: %v", r.errors)
				}
			})
		})
	}
}

// unreachable is a store that is down.
type unreachable struct{ driver.Driver }

func (unreachable) Acquire(context.Context, driver.AcquireRequest) (driver.Grant, error) {
	return driver.Grant{}, &driver.StoreError{Outcome: driver.ErrUnavailable, Op: "acquire", Reason: "test"}
}

func TestContextOfTheJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := lock.New(newStore(), "lk:{test/one}:", &lock.Options{Clock: clock.Monotonic()})
		if err != nil {
			t.Fatal(err)
		}
		runner, err := exclusive.New(client, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var logs bytes.Buffer
		jobs, err := cronlock.New(ctx, runner, &cronlock.Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
		if err != nil {
			t.Fatal(err)
		}
		c := cron.New()
		c.Start()
		began := make(chan struct{})
		_, err = jobs.AddFunc(c, "* * * * *", "report", func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			return ctx.Err()
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		<-began
		stopped := c.Stop()
		cancel()
		<-stopped.Done()
		if got := logs.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "job=report") || !strings.Contains(got, "context canceled") {
			t.Errorf("log: %q", got)
		}
	})
}

func TestArgumentsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newStore(), 0)
		work := func(context.Context) error { return nil }
		for argument, tc := range map[string]struct {
			spec, job string
			fn        func(context.Context) error
			options   *exclusive.JobOptions
		}{
			"job":            {"* * * * *", "", work, nil},
			"fn":             {"* * * * *", "report", nil, nil},
			"MinHold":        {"@every 1m", "report", work, nil},
			"MinHold absent": {"@every 1m", "report", work, &exclusive.JobOptions{MaxHold: time.Minute}},
			"MinHold long":   {"@every 9h", "report", work, &exclusive.JobOptions{MinHold: 8 * time.Hour}},
			"Slot":           {"* * * * *", "report", work, &exclusive.JobOptions{Slot: time.Now()}},
			"Slot tolerance": {"@every 1m", "report", work, &exclusive.JobOptions{MinHold: time.Second, Tolerance: time.Minute}},
			"Tolerance":      {"* * * * *", "report", work, &exclusive.JobOptions{Tolerance: 8 * time.Hour}},
			"TTL":            {"* * * * *", "report", work, &exclusive.JobOptions{TTL: 1}},
		} {
			_, err := r.AddFunc(r.cron, tc.spec, tc.job, tc.fn, tc.options)
			if invalid, ok := errors.AsType[*lock.InvalidError](err); !ok || !strings.HasPrefix(argument, invalid.Argument) {
				t.Errorf("%s: error is %v, want a *lock.InvalidError for it", argument, err)
			}
		}
		if _, err := r.AddFunc(r.cron, "every full moon", "report", work, nil); err == nil {
			t.Error("a spec that cron does not know was taken")
		}
		if entries := r.cron.Entries(); len(entries) > 0 {
			t.Errorf("cron has %d entries after refusals", len(entries))
		}
		if _, err := r.Wrapper("report", nil, nil, nil); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("a nil schedule: %v", err)
		}
		if _, err := r.Wrapper("report", cron.Every(time.Minute), nil, nil); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("a wrapper without MinHold for a schedule without fixed times: %v", err)
		}
		if _, err := cronlock.New(t.Context(), nil, nil); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("a nil runner: %v", err)
		}
	})
}
