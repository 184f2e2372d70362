// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockprom_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstead/lockstead/pkg/adapters/lockprom"
	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

func newRunner(t *testing.T, store *memlock.Driver, counted *lockprom.Jobs) *exclusive.Runner {
	t.Helper()
	client, err := lock.New(store, "lk:{test/one}:", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	jobs, err := exclusive.New(client, &exclusive.Options{OnOutcome: counted.OnOutcome})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// Names that the program makes up at run time do not become time series of their own.
func TestJobsAreCounted(t *testing.T) {
	counted := lockprom.NewJobs([]string{"report", "sweep"}, &lockprom.JobOptions{LockNamespace: "test/one", NativeHistograms: true})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(counted)
	series := len(gather(t, registry)["lockstead_job_runs_total"].GetMetric())
	if want := 3 * len(exclusive.Outcomes()); series != want {
		t.Errorf("there are %d counters before the first run, want %d", series, want)
	}
	jobs := newRunner(t, memlock.New(nil), counted)
	run := func(job string, fn func() error) {
		t.Helper()
		defer func() { _ = recover() }()
		_, _ = jobs.RunExclusive(t.Context(), job, func(context.Context, *lock.Handle) error { return fn() }, nil)
	}
	nothing := func() error { return nil }
	run("report", nothing)
	run("report", func() error {
		run("report", nothing)
		return nil
	})
	run("report", func() error { return errors.New("no data") })
	run("report", func() error { panic("no data") })
	run("", nothing)
	for i := range 50 {
		run(fmt.Sprint("customer:", i), nothing)
	}
	want := func(name, labels string, want float64) {
		t.Helper()
		if got := value(t, registry, "lockstead_job_"+name, labels); got != want {
			t.Errorf("%s{%s} is %v, want %v", name, labels, got, want)
		}
	}
	for outcome, times := range map[exclusive.Outcome]float64{exclusive.Ran: 2, exclusive.SkippedHeld: 1, exclusive.Failed: 1, exclusive.Panicked: 1, exclusive.Refused: 0} {
		want("runs_total", "job_name=report,lock_namespace=test/one,outcome="+string(outcome), times)
	}
	want("runs_total", "job_name=other,lock_namespace=test/one,outcome=ran", 50)
	want("runs_total", "job_name=other,lock_namespace=test/one,outcome=refused", 1)
	want("duration_seconds", "job_name=report,lock_namespace=test/one", 4)
	want("duration_seconds", "job_name=other,lock_namespace=test/one", 50)
	want("duration_seconds", "job_name=sweep,lock_namespace=test/one", 0)
	if got := len(gather(t, registry)["lockstead_job_runs_total"].GetMetric()); got != series {
		t.Errorf("there are %d counters after the runs, want %d as before", got, series)
	}
}

func ExampleNewJobs() {
	ctx := context.Background()
	client, err := lock.New(memlock.New(nil), "lk:{payments/billing}:", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	counted := lockprom.NewJobs([]string{"nightly-report"}, nil)
	registry := prometheus.NewRegistry() // the application's own
	registry.MustRegister(counted)
	jobs, err := exclusive.New(client, &exclusive.Options{OnOutcome: counted.OnOutcome})
	if err != nil {
		fmt.Println(err)
		return
	}
	report := func(context.Context, *lock.Handle) error { return nil }
	for range 2 { // two replicas tick
		if _, err := jobs.RunExclusive(ctx, "nightly-report", report, &exclusive.JobOptions{MinHold: time.Minute}); err != nil {
			fmt.Println(err)
		}
	}

	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if n := m.GetCounter().GetValue(); n > 0 {
				fmt.Println(family.GetName(), m.GetLabel()[1].GetValue(), n)
			}
		}
	}
	// Output:
	// lockstead_job_runs_total ran 1
	// lockstead_job_runs_total skipped-held 1
}
