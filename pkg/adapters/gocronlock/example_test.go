// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package gocronlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockstead/lockstead/pkg/adapters/gocronlock"
	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

func Example() {
	// Instead of this: lockstead.Open, which reads the mounted binding.
	client, err := lock.New(memlock.New(nil), "lk:{payments/billing}:", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	jobs, err := exclusive.New(client, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	locker, err := gocronlock.New(jobs, 45*time.Second, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan struct{})
	report := func() {
		fmt.Println("reporting")
		close(done)
	}
	// The schedule is as it was.
	if _, err := s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(report), gocron.WithName("report")); err != nil {
		fmt.Println(err)
	}
	s.Start()
	<-done
	fmt.Println(s.Shutdown())
	// Output:
	// reporting
	// <nil>
}
