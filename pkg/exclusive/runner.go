// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package exclusive

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Runner runs jobs, each on one replica. It is safe for concurrent use.
type Runner struct {
	client  *lock.Client
	options Options
}

// New makes a Runner over a client, which it does not own. The error is a *lock.InvalidError.
func New(client *lock.Client, options *Options) (*Runner, error) {
	if client == nil {
		return nil, &lock.InvalidError{Argument: "client", Problem: "is nil: open one with lockstead.Open or lock.New"}
	}
	r := &Runner{client: client}
	if options != nil {
		r.options = *options
	}
	if r.options.Logger == nil {
		r.options.Logger = slog.New(slog.DiscardHandler)
	}
	if r.options.Now == nil {
		r.options.Now = time.Now //nolint:forbidigo // Slots are a matter of the wall clock.
	}
	return r, nil
}

// Validate tells at once which of the options RunExclusive would refuse, whatever the time and the slot. The error is a *lock.InvalidError.
func (r *Runner) Validate(options *JobOptions) error {
	if options == nil {
		return nil
	}
	o := *options
	now := r.options.Now()
	if !o.Slot.IsZero() {
		o.Slot = now
	}
	_, err := resolve("any", o, now, r.client.DefaultTTL(), r.client.MaxTTL())
	return err
}

// RunExclusive runs fn unless another replica runs job, or has run it for this slot or within its MinHold. It never waits for another run. It returns when
// fn has returned, and the keys have been released or left to their time.
//
// The context of fn ends with ctx, and with the lock; the handle has the fencing token. A panic of fn goes on to the caller once the lock
// has been released. The error is nil if the job ran and succeeded, and if it was skipped; see Outcome for the others. A job is known by its name, which must
// be the same on every replica, and which is part of the lock's key: job:<name>, and job:<name>:<slot in UTC>.
func (r *Runner) RunExclusive(ctx context.Context, job string, fn func(ctx context.Context, h *lock.Handle) error, options *JobOptions) (outcome Outcome, err error) {
	var o JobOptions
	if options != nil {
		o = *options
	}
	started := r.options.Now()
	outcome = Panicked // Unless run returns.
	defer func() {
		r.report(ctx, Event{Job: job, Outcome: outcome, Slot: o.Slot, Took: r.options.Now().Sub(started), Err: err})
	}()
	p, err := resolve(job, o, started, r.client.DefaultTTL(), r.client.MaxTTL())
	if err == nil && fn == nil {
		err = &lock.InvalidError{Argument: "fn", Problem: "is nil"}
	}
	if err != nil {
		return Refused, err
	}
	x := execution{runner: r, plan: p, fn: fn}
	err = x.run(ctx)
	outcome, err = x.judge(ctx, err)
	return outcome, err
}

func (r *Runner) report(ctx context.Context, e Event) {
	if r.options.OnOutcome == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			r.options.Logger.ErrorContext(ctx, "the observer of a job's outcome panicked", "job", e.Job, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	r.options.OnOutcome(ctx, e)
}

// execution is one call of RunExclusive.
type execution struct {
	runner *Runner
	plan   plan
	fn     func(ctx context.Context, h *lock.Handle) error

	// slot and job are the locks that were granted.
	slot, job *lock.Handle
	// done says that fn has returned nil, and no lock was lost by then.
	done bool
}

// run takes the slot, if there is one, before the job: the job's key is then only ever held for a run, and a replica that is late for one slot cannot
// make all others skip the next.
func (x *execution) run(ctx context.Context) error {
	if x.plan.slotKey == "" {
		return x.runJob(ctx)
	}
	return x.runner.client.Do(ctx, x.plan.slotKey, func(ctx context.Context, h *lock.Handle) error {
		x.slot = h
		defer x.leave(ctx, h, func() time.Duration { return x.plan.slotRest - x.since(x.plan.started) })
		return x.runJob(ctx)
	}, x.plan.doOptions(x.plan.slotRest))
}

func (x *execution) runJob(ctx context.Context) error {
	err := x.runner.client.Do(ctx, x.plan.jobKey, func(ctx context.Context, h *lock.Handle) error {
		x.job = h
		granted := x.runner.options.Now()
		defer x.leave(ctx, h, func() time.Duration { return x.plan.minHold - x.since(granted) })
		err := x.fn(ctx, h)
		x.done = err == nil
		return err
	}, x.plan.doOptions(x.plan.minHold))
	x.done = x.done && err == nil
	return err
}

// since is how much of a rest is over: too little after the machine slept, so that a rest is never too short.
func (x *execution) since(t time.Time) time.Duration { return max(0, x.runner.options.Now().Sub(t)) }

// leave keeps the key of a run that is over locked for its rest. Otherwise Do releases it.
func (x *execution) leave(ctx context.Context, h *lock.Handle, rest func() time.Duration) {
	if !x.done && (x.job == nil || !x.plan.holdAfterFail) {
		return
	}
	if left := rest(); left > 0 {
		// Do finds a loss, and logs a fault of the store, which leaves the key locked for its TTL.
		_ = h.Leave(ctx, max(left, lock.MinTTL))
	}
}

// judge tells what came of a run that ended with err.
func (x *execution) judge(ctx context.Context, err error) (Outcome, error) {
	switch {
	case x.job != nil && (lost(ctx, x.job) || lost(ctx, x.slot)):
		return Lost, err
	case x.job != nil && err != nil:
		return Failed, err
	case x.job != nil:
		return Ran, nil
	case errors.Is(err, lock.ErrInvalid):
		return Refused, err
	case !errors.Is(err, lock.ErrHeld) || (x.slot != nil && lost(ctx, x.slot)):
		return NotRun, err
	}
	outcome := SkippedHeld
	if x.slot == nil && x.plan.slotKey != "" {
		outcome = SkippedSlot
	}
	x.runner.options.Logger.InfoContext(ctx, "job skipped: another replica has it", "job", x.plan.job, "outcome", string(outcome), "reason", err.Error())
	return outcome, nil
}

// lost asks again what Do was told when it released h, which does no I/O.
func lost(ctx context.Context, h *lock.Handle) bool {
	return h != nil && errors.Is(h.Release(ctx), lock.ErrLost)
}
