// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package exclusive

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Options are what a Runner can be told. The zero value, or nil, is ready to use.
type Options struct {
	// Logger gets an Info record for every run that is skipped, and an Error record if OnOutcome panics. Defaults to no logging.
	Logger *slog.Logger
	// OnOutcome is called at the end of every call of RunExclusive, on its goroutine, for counters. The locks have been released before, so one that
	// blocks holds up its caller and nothing else. A panic of it is logged and goes no further. Packages lockprom and lockotel of pkg/adapters have ready-made
	// ones. Defaults to none.
	OnOutcome func(ctx context.Context, e Event)
	// Now is the wall clock that slots are compared with. Defaults to time.Now.
	Now func() time.Time
}

// JobOptions are what a run can be told. The zero value, or nil, is ready to use: the job runs on one replica at a time, and as often as it is called when
// no other run is under way.
type JobOptions struct {
	// Slot is the time for which the schedule planned this run, the same on every replica; its time zone does not matter. Defaults to none.
	Slot time.Time
	// Tolerance is the time after its slot within which a run may begin. It needs a Slot. Defaults to 1 min.
	Tolerance time.Duration
	// MaxSkew is by how much the wall clocks of the replicas may differ, and how far ahead a slot may be. It needs a Slot. Defaults to 10 s. Tolerance and
	// twice MaxSkew together must not be longer than the client's MaxTTL.
	MaxSkew time.Duration
	// MinHold is how long the job stays locked at least, from when the lock was granted, also when it is done before. Not longer than the client's
	// MaxTTL. Defaults to 0: the lock is released with the end of the job.
	MinHold time.Duration
	// MaxHold is how long the lock is renewed at most; then the job's context ends, and the outcome is Lost. Defaults to the client's MaxTTL.
	MaxHold time.Duration
	// TTL is the crash guard, renewed while the job runs. A shorter one than MinHold is lengthened to it. Defaults to the client's DefaultTTL.
	TTL time.Duration
	// HoldAfterFailure makes MinHold and Slot hold for a job that failed or panicked as for one that succeeded. Defaults to false: such a run
	// frees its keys at once, so that it can be repeated.
	HoldAfterFailure bool
}

const (
	defaultTolerance = time.Minute
	defaultMaxSkew   = 10 * time.Second
)

// plan is a run whose arguments were accepted.
type plan struct {
	job     string
	jobKey  string
	slotKey string // "" without a slot
	ttl     time.Duration
	maxHold time.Duration
	minHold time.Duration
	// slotRest is for how long, from started on, the slot has to stay locked.
	slotRest      time.Duration
	started       time.Time
	holdAfterFail bool
}

// resolve decides about the arguments of a run that begins now.
func resolve(job string, o JobOptions, now time.Time, defaultTTL, maxTTL time.Duration) (plan, error) {
	p := plan{job: job, jobKey: lock.Key("job", job), minHold: o.MinHold, maxHold: o.MaxHold, ttl: o.TTL, started: now, holdAfterFail: o.HoldAfterFailure}
	if job == "" {
		return p, &lock.InvalidError{Argument: "job", Problem: "is empty: name the job, the same on every replica"}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Tolerance", o.Tolerance}, {"MaxSkew", o.MaxSkew}, {"MinHold", o.MinHold}, {"MaxHold", o.MaxHold}, {"TTL", o.TTL}} {
		if d.value < 0 {
			return p, &lock.InvalidError{Argument: d.name, Problem: fmt.Sprintf("%s is negative", d.value)}
		}
	}
	if o.MinHold > maxTTL {
		return p, &lock.InvalidError{Argument: "MinHold", Problem: fmt.Sprintf(
			"%s is longer than the client's MaxTTL of %s: shorten it, or give a Slot if the schedule has fixed times", o.MinHold, maxTTL)}
	}
	if p.ttl == 0 {
		p.ttl = defaultTTL
	}
	if p.ttl < lock.MinTTL || p.ttl > maxTTL {
		return p, &lock.InvalidError{Argument: "TTL", Problem: fmt.Sprintf("%s is not between %s and the client's MaxTTL of %s", p.ttl, lock.MinTTL, maxTTL)}
	}
	if o.Slot.IsZero() {
		if o.Tolerance != 0 || o.MaxSkew != 0 {
			return p, &lock.InvalidError{Argument: "Slot", Problem: "is missing: Tolerance and MaxSkew are about a slot"}
		}
		return p, nil
	}
	return p, p.resolveSlot(o, now, maxTTL)
}

func (p *plan) resolveSlot(o JobOptions, now time.Time, maxTTL time.Duration) error {
	tolerance, skew := o.Tolerance, o.MaxSkew
	if tolerance == 0 {
		tolerance = defaultTolerance
	}
	if skew == 0 {
		skew = defaultMaxSkew
	}
	if tolerance > maxTTL || skew > maxTTL || tolerance+2*skew > maxTTL {
		return &lock.InvalidError{Argument: "Tolerance", Problem: fmt.Sprintf(
			"%s with twice the MaxSkew of %s is longer than the client's MaxTTL of %s, for which a slot can stay locked", tolerance, skew, maxTTL)}
	}
	// Without the reading of the monotonic clock: a slot is a matter of wall clocks.
	late := now.Round(0).Sub(o.Slot)
	switch {
	case late >= tolerance:
		return &SlotError{Job: p.job, Slot: o.Slot, Late: late, Limit: tolerance}
	case -late > skew:
		return &SlotError{Job: p.job, Slot: o.Slot, Late: late, Limit: skew}
	}
	p.slotKey = lock.Key("job", p.job, o.Slot.UTC().Format("20060102T150405.999999999Z"))
	// A replica whose clock is MaxSkew behind this one may begin until then.
	p.slotRest = tolerance + skew - late
	return nil
}

func (p *plan) doOptions(rest time.Duration) *lock.DoOptions {
	// With a TTL of the rest, the key stays locked for it even if the process dies or the store cannot be told of the end.
	return &lock.DoOptions{TTL: max(p.ttl, rest), MaxHold: p.maxHold}
}
