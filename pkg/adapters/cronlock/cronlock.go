// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cronlock makes the jobs of github.com/robfig/cron run on one replica, once for each time of their schedule.
//
//	jobs, err := exclusive.New(client, nil)
//	…
//	locked, err := cronlock.New(ctx, jobs, nil)
//	…
//	c := cron.New()
//	_, err = locked.AddFunc(c, "0 3 * * *", "nightly-report", report, nil) // was: c.AddFunc("0 3 * * *", report)
//
// The function takes a context now, which ends with the lock, and returns its error.
//
// The slot of a run is the last time of the schedule that was due, so replicas whose ticks are apart have the same one, as long as they have the same
// schedule in the same time zone. Package exclusive says how far their clocks may differ. A schedule like "@every 5m" has no fixed times, since each process
// counts from its own start: it needs a MinHold.
//
// Cron has no place for the error of a job: it goes to Options.OnError. A panic goes on to cron, and ends the process unless
// the chain has cron.Recover.
package cronlock

import (
	"context"
	"log/slog"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
)

// Options are what New can be told. The zero value, or nil, is ready to use.
type Options struct {
	// OnError gets every error of a run: that of the job, a lost lock, a store that could not be asked, a slot that is too long ago. It is called on the
	// goroutine of the run. Defaults to a record at Error on Logger.
	OnError func(ctx context.Context, job string, err error)
	// Logger is used if there is no OnError. Defaults to slog.Default.
	Logger *slog.Logger
	// Now is the wall clock, the same as that of the Runner. Defaults to time.Now.
	Now func() time.Time
}

// Jobs makes jobs for cron that run on one replica. It is safe for concurrent use.
type Jobs struct {
	ctx     context.Context //nolint:containedctx // Cron calls jobs without a context.
	runner  *exclusive.Runner
	options Options
}

// New makes Jobs over a runner. The contexts of the jobs end with ctx. The error is a *lock.InvalidError.
func New(ctx context.Context, runner *exclusive.Runner, options *Options) (*Jobs, error) {
	if runner == nil {
		return nil, &lock.InvalidError{Argument: "runner", Problem: "is nil: make one with exclusive.New"}
	}
	j := &Jobs{ctx: ctx, runner: runner}
	if options != nil {
		j.options = *options
	}
	if j.options.Now == nil {
		j.options.Now = time.Now //nolint:forbidigo // Schedules are a matter of the wall clock.
	}
	if j.options.Logger == nil {
		j.options.Logger = slog.Default()
	}
	if j.options.OnError == nil {
		j.options.OnError = func(ctx context.Context, job string, err error) {
			j.options.Logger.ErrorContext(ctx, "run of a job failed", "job", job, "error", err)
		}
	}
	return j, nil
}

// AddFunc adds to c what c.AddFunc would add, to be run on one replica. The context of fn ends with that of New, and with the lock. The options must
// have no Slot, and for a schedule like "@every 5m" a MinHold.
//
// The error is that of cron for spec, or a *lock.InvalidError; then nothing was added.
func (j *Jobs) AddFunc(c *cron.Cron, spec, job string, fn func(ctx context.Context) error, options *exclusive.JobOptions) (cron.EntryID, error) {
	if fn == nil {
		return 0, &lock.InvalidError{Argument: "fn", Problem: "is nil"}
	}
	t := &task{jobs: j, name: job, fn: fn, location: c.Location(), ready: make(chan struct{})}
	id, err := c.AddJob(spec, t)
	if err != nil {
		return 0, err
	}
	// Only c knows how it parses spec. If it is running it may call the job at once, which waits for this.
	defer close(t.ready)
	if err := t.plan(c.Entry(id).Schedule, options); err != nil {
		c.Remove(id)
		return 0, err
	}
	return id, nil
}

// Wrapper makes a cron.JobWrapper for one job, which is to be added with the same schedule:
//
//	c.Schedule(schedule, cron.NewChain(wrapper).Then(job))
//
// Location is that of the cron.Cron, nil for time.Local. The wrapped job is not told when its lock is lost, since cron's jobs have no
// context. It is for one job, never for cron.WithChain: all jobs would be taken for the same.
//
// The options are as for AddFunc. The error is a *lock.InvalidError.
func (j *Jobs) Wrapper(job string, schedule cron.Schedule, location *time.Location, options *exclusive.JobOptions) (cron.JobWrapper, error) {
	if schedule == nil {
		return nil, &lock.InvalidError{Argument: "schedule", Problem: "is nil: parse one with cron.ParseStandard"}
	}
	if location == nil {
		location = time.Local
	}
	t := task{jobs: j, name: job, location: location, ready: make(chan struct{})}
	close(t.ready)
	if err := t.plan(schedule, options); err != nil {
		return nil, err
	}
	return func(wrapped cron.Job) cron.Job {
		one := t
		one.fn = func(context.Context) error {
			wrapped.Run()
			return nil
		}
		return &one
	}, nil
}

// task is a cron.Job.
type task struct {
	jobs     *Jobs
	name     string
	fn       func(ctx context.Context) error
	location *time.Location

	// ready is closed when the rest is set, or was refused.
	ready    chan struct{}
	schedule cron.Schedule // nil if it was refused
	options  exclusive.JobOptions
	// slots says that the schedule has fixed times.
	slots bool
}

// plan sets the schedule and the options, or refuses them.
func (t *task) plan(schedule cron.Schedule, options *exclusive.JobOptions) error {
	if options != nil {
		t.options = *options
	}
	if !t.options.Slot.IsZero() {
		return &lock.InvalidError{Argument: "Slot", Problem: "is set: it comes from the schedule"}
	}
	if t.name == "" {
		return &lock.InvalidError{Argument: "job", Problem: "is empty: name the job, the same on every replica"}
	}
	switch schedule.(type) {
	case cron.ConstantDelaySchedule, *cron.ConstantDelaySchedule:
		if t.options.MinHold == 0 {
			return &lock.InvalidError{Argument: "MinHold", Problem: "is missing: the schedule has no fixed times, so take somewhat less than the time between two runs"}
		}
	default:
		t.slots = true
	}
	check := t.options
	if t.slots {
		check.Slot = t.jobs.options.Now()
	}
	if err := t.jobs.runner.Validate(&check); err != nil {
		return err
	}
	t.schedule = schedule
	return nil
}

// Run implements cron.Job.
func (t *task) Run() {
	<-t.ready
	if t.schedule == nil {
		return
	}
	options := t.options
	if t.slots {
		options.Slot = due(t.schedule, t.jobs.options.Now().In(t.location))
	}
	ctx := t.jobs.ctx
	_, err := t.jobs.runner.RunExclusive(ctx, t.name, func(ctx context.Context, _ *lock.Handle) error { return t.fn(ctx) }, &options)
	if err != nil {
		t.jobs.options.OnError(ctx, t.name, err)
	}
}

// due is the last time of the schedule that is not after now. For a schedule that has had none in ten years it is ten years ago, which the runner
// refuses.
func due(schedule cron.Schedule, now time.Time) time.Time {
	const farthest = 10 * 365 * 24 * time.Hour
	for back := time.Minute; back < farthest; back *= 2 {
		slot := time.Time{}
		for next := schedule.Next(now.Add(-back)); !next.IsZero() && !next.After(now); next = schedule.Next(next) {
			slot = next
		}
		if !slot.IsZero() {
			return slot
		}
	}
	return now.Add(-farthest)
}
