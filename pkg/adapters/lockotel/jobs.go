// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockstead/lockstead/pkg/exclusive"
)

// JobOptions are what NewJobObserver can be told. The zero value, or nil, is ready to use.
type JobOptions struct {
	// MeterProvider makes the meter. Defaults to the global one.
	MeterProvider metric.MeterProvider
	// Attributes are put on every measurement, for example the lock namespace. Defaults to none.
	Attributes []attribute.KeyValue
}

// Attributes of the measurements of jobs.
const (
	// JobNameAttribute is the job's name, or OtherJob.
	JobNameAttribute = attribute.Key("lockstead.job.name")
	// JobOutcomeAttribute is an exclusive.Outcome.
	JobOutcomeAttribute = attribute.Key("lockstead.job.outcome")
)

// OtherJob is the name that is given for jobs that NewJobObserver was not told of.
const OtherJob = "other"

// NewJobObserver makes what to give to an exclusive.Runner as exclusive.Options.OnOutcome. It counts the jobs with these names; whatever else is run
// is counted as OtherJob, so that names that are made up while the program runs cannot grow the number of time series. The function is safe for
// concurrent use, and does no I/O. The error is that of a meter provider that refuses an instrument.
//
//	counted, err := lockotel.NewJobObserver([]string{"nightly-report", "sweep"}, nil)
//	…
//	jobs, err := exclusive.New(client, &exclusive.Options{OnOutcome: counted})
func NewJobObserver(names []string, options *JobOptions) (func(ctx context.Context, e exclusive.Event), error) {
	var o JobOptions
	if options != nil {
		o = *options
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	known := map[string]struct{}{}
	for _, name := range names {
		known[name] = struct{}{}
	}
	meter := o.MeterProvider.Meter(scope)
	runs, runsErr := meter.Int64Counter("lockstead.job.runs", metric.WithDescription("Calls to run a job that ended; most replicas skip."), metric.WithUnit("{run}"))
	duration, durationErr := meter.Float64Histogram("lockstead.job.duration", metric.WithDescription("Time from the call to the end of a job that began here."), metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600, 7200))
	if err := errors.Join(runsErr, durationErr); err != nil {
		return nil, fmt.Errorf("lockotel: %w", err)
	}
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributes(append(more, o.Attributes...)...)
	}
	return func(ctx context.Context, e exclusive.Event) {
		name := JobNameAttribute.String(e.Job)
		if _, ok := known[e.Job]; !ok {
			name = JobNameAttribute.String(OtherJob)
		}
		runs.Add(ctx, 1, with(name, JobOutcomeAttribute.String(string(e.Outcome))))
		if e.Outcome.Began() {
			duration.Record(ctx, e.Took.Seconds(), with(name))
		}
	}, nil
}
