// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package cronlock_test

import (
	"context"
	"fmt"

	"github.com/robfig/cron/v3"

	"github.com/lockstead/lockstead/pkg/adapters/cronlock"
	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

func Example() {
	ctx := context.Background()
	// Instead of this: lockstead.Open, which reads the mounted binding.
	client, err := lock.New(memlock.New(nil), "lk:{payments/billing}:", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	jobs, err := exclusive.New(client, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	locked, err := cronlock.New(ctx, jobs, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	c := cron.New()
	report := func(context.Context) error { return nil }
	_, err = locked.AddFunc(c, "0 3 * * *", "nightly-report", report, nil)
	fmt.Println(len(c.Entries()), err)
	_, err = locked.AddFunc(c, "@every 5m", "sweep", report, nil)
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// lock: MinHold: is missing: the schedule has no fixed times, so take somewhat less than the time between two runs
}
