// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gocronlock makes gocron run a job on one replica. Existing schedules get it with one option:
//
//	jobs, err := exclusive.New(client, nil)
//	…
//	locker, err := gocronlock.New(jobs, 45*time.Second, nil)
//	…
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// gocron tells a locker the name of the job and nothing of its schedule. So the runs of replicas whose ticks are not at the same instant are kept
// apart by a minimum hold. Name jobs with gocron.WithName, the same on every replica: the default is the name of the function, which several jobs
// may share.
//
// What gocron does with a locker, as of v2.21:
//
//   - It calls Lock right before the run. If that fails, the job is counted as skipped, whatever the error, and listeners with
//     gocron.AfterLockError get it: match it with lock.ErrHeld to tell "another replica has it" from "the store could not be asked".
//   - It calls Unlock when the job has returned, also after a panic, and ignores the error.
//   - It does not tell Unlock whether the job succeeded, so a job that failed keeps its minimum hold.
//   - It gives the job a context that a locker cannot end. A job whose lock was lost runs on; the loss is logged by the lock client, and the Runner's
//     OnOutcome gets exclusive.Lost. Where that is not enough, leave the locker out and call RunExclusive in the task.
package gocronlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Options are what a Locker can be told. The zero value, or nil, is ready to use.
type Options struct {
	// TTL is the crash guard, renewed while the job runs. A shorter one than the minimum hold is lengthened to it. Defaults to the client's DefaultTTL.
	TTL time.Duration
	// MaxHold is how long the lock is renewed at most. The job runs on after it, but no longer alone. Defaults to the client's MaxTTL.
	MaxHold time.Duration
}

// Locker is a gocron.Locker. It is safe for concurrent use.
type Locker struct {
	runner  *exclusive.Runner
	options exclusive.JobOptions
}

var _ gocron.Locker = (*Locker)(nil)

// New makes a Locker for jobs that stay locked for minHold at least: longer than the ticks of the replicas are apart, and shorter than the pause between
// two runs. The error is a *lock.InvalidError.
func New(runner *exclusive.Runner, minHold time.Duration, options *Options) (*Locker, error) {
	if runner == nil {
		return nil, &lock.InvalidError{Argument: "runner", Problem: "is nil: make one with exclusive.New"}
	}
	if minHold <= 0 {
		return nil, &lock.InvalidError{Argument: "minHold", Problem: fmt.Sprintf(
			"%s is not positive: without it a short job runs once per replica; take somewhat less than the pause between two runs", minHold)}
	}
	l := &Locker{runner: runner, options: exclusive.JobOptions{MinHold: minHold}}
	if options != nil {
		l.options.TTL, l.options.MaxHold = options.TTL, options.MaxHold
	}
	if err := runner.Validate(&l.options); err != nil {
		return nil, err
	}
	return l, nil
}

// SkippedError is why a job does not run here. It matches lock.ErrHeld.
type SkippedError struct {
	// Job is the name that gocron gave.
	Job string
}

func (e *SkippedError) Error() string {
	return fmt.Sprintf("job %q skipped: another replica has it, or its minimum hold is not over", e.Job)
}

// Is matches lock.ErrHeld.
func (e *SkippedError) Is(target error) bool { return target == lock.ErrHeld }

// run is a gocron.Lock.
type run struct {
	granted, unlocked, over chan struct{}
	unlock                  func()

	// Set before over is closed.
	outcome exclusive.Outcome
	err     error
}

// Lock takes the job for this replica. It never waits for another run. The error is a *SkippedError, or what RunExclusive says.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	if err := driver.ContextError(ctx); err != nil {
		return nil, err
	}
	r := &run{granted: make(chan struct{}), unlocked: make(chan struct{}), over: make(chan struct{})}
	r.unlock = sync.OnceFunc(func() { close(r.unlocked) })
	// The context is that of the job, and ends when the scheduler shuts down: then the job may still run under the lock.
	asking, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() { cancel(driver.ContextError(ctx)) })()
	go func() {
		defer close(r.over)
		defer cancel(nil)
		r.outcome, r.err = l.runner.RunExclusive(asking, job, func(context.Context, *lock.Handle) error {
			close(r.granted)
			<-r.unlocked
			return nil
		}, &l.options)
	}()
	select {
	case <-r.granted:
		return r, nil
	case <-r.over:
	}
	if r.outcome.Skipped() {
		return nil, &SkippedError{Job: job}
	}
	return nil, r.err
}

// Unlock ends the run, and leaves the job locked for the rest of the minimum hold. It does not depend on ctx. The error matches lock.ErrLost if the lock
// had ended before.
func (r *run) Unlock(context.Context) error {
	r.unlock()
	<-r.over
	return r.err
}
