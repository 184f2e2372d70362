// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package exclusive_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

// newExampleRunner stands for a replica, which gets its client from lockstead.Open.
func newExampleRunner(store *memlock.Driver, options *exclusive.Options) *exclusive.Runner {
	client, err := lock.New(store, "lk:{payments/billing}:", nil)
	if err != nil {
		panic(err)
	}
	jobs, err := exclusive.New(client, options)
	if err != nil {
		panic(err)
	}
	return jobs
}

func Example() {
	ctx := context.Background()
	store := memlock.New(nil)
	one, two := newExampleRunner(store, nil), newExampleRunner(store, nil)

	report := func(_ context.Context, h *lock.Handle) error {
		fmt.Println("reporting under", h.Key())
		return nil
	}
	// The time that the schedule gave for this run; here the full minute that has begun.
	slot := time.Now().Truncate(time.Minute)
	for _, replica := range []*exclusive.Runner{one, two} {
		outcome, err := replica.RunExclusive(ctx, "nightly-report", report, &exclusive.JobOptions{Slot: slot})
		fmt.Println(outcome, err)
	}
	// Output:
	// reporting under job:nightly-report
	// ran <nil>
	// skipped-slot <nil>
}

func ExampleJobOptions_minHold() {
	ctx := context.Background()
	store := memlock.New(nil)
	count := func(_ context.Context, e exclusive.Event) { fmt.Println("counted:", e.Job, e.Outcome) }
	one := newExampleRunner(store, &exclusive.Options{OnOutcome: count})
	two := newExampleRunner(store, &exclusive.Options{OnOutcome: count})

	// Each replica ticks every minute, counted from when it started.
	sweep := func(context.Context, *lock.Handle) error { return nil }
	for _, replica := range []*exclusive.Runner{one, two} {
		if _, err := replica.RunExclusive(ctx, "sweep", sweep, &exclusive.JobOptions{MinHold: 50 * time.Second}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// counted: sweep ran
	// counted: sweep skipped-held
}
