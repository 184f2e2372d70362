// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockprom

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstead/lockstead/pkg/exclusive"
)

// JobOptions are what NewJobs can be told. The zero value, or nil, is ready to use.
type JobOptions struct {
	// LockNamespace is the value of the label "lock_namespace" of every metric, as in Options. Defaults to no such label.
	LockNamespace string
	// DurationBuckets are the upper bounds, in seconds, for the time that a run took. Defaults to DefaultJobBuckets.
	DurationBuckets []float64
	// NativeHistograms adds native histograms, of a growth factor of 1.1 and at most 160 buckets, to the classic ones. Defaults to none.
	NativeHistograms bool
}

// DefaultJobBuckets go from a look whether there is work to a nightly batch: 10 ms to 2 h.
func DefaultJobBuckets() []float64 {
	return []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600, 7200}
}

// OtherJob is the value of the label "job_name" for jobs that NewJobs was not told of.
const OtherJob = "other"

// Jobs are the metrics of the jobs that one or several exclusive.Runners run. Register them once. They are safe for concurrent use.
type Jobs struct {
	names    map[string]struct{}
	runs     *prometheus.CounterVec
	duration *prometheus.HistogramVec

	all collectors
}

var _ prometheus.Collector = (*Jobs)(nil)

// NewJobs makes metrics, not registered yet, of the jobs with these names. Whatever else is run is counted as OtherJob, so that names that are made up
// while the program runs cannot grow the number of time series.
//
//	counted := lockprom.NewJobs([]string{"nightly-report", "sweep"}, nil)
//	registry.MustRegister(counted)
//	jobs, err := exclusive.New(client, &exclusive.Options{OnOutcome: counted.OnOutcome})
func NewJobs(names []string, options *JobOptions) *Jobs {
	var o JobOptions
	if options != nil {
		o = *options
	}
	f := factory{labels: prometheus.Labels{}, native: o.NativeHistograms}
	if o.LockNamespace != "" {
		f.labels["lock_namespace"] = o.LockNamespace
	}
	j := &Jobs{
		names: make(map[string]struct{}),
		runs:  f.counter("job_runs_total", "Calls to run a job that ended, by outcome; most replicas skip.", "job_name", "outcome"),
		duration: f.histogram("job_duration_seconds", "Time from the call to the end of a job that began here, whatever became of it.",
			or(o.DurationBuckets, DefaultJobBuckets), "job_name"),
	}
	j.all = f.all
	for _, name := range append([]string{OtherJob}, names...) {
		j.names[name] = struct{}{}
		j.duration.WithLabelValues(name)
		for _, outcome := range exclusive.Outcomes() {
			j.runs.WithLabelValues(name, string(outcome))
		}
	}
	return j
}

// OnOutcome is what to give to a Runner as exclusive.Options.OnOutcome. It does no I/O. A program that has an OnOutcome of its own calls this one from it.
func (j *Jobs) OnOutcome(_ context.Context, e exclusive.Event) {
	name := e.Job
	if _, known := j.names[name]; !known {
		name = OtherJob
	}
	j.runs.WithLabelValues(name, string(e.Outcome)).Inc()
	if e.Outcome.Began() {
		j.duration.WithLabelValues(name).Observe(e.Took.Seconds())
	}
}

// Describe implements prometheus.Collector.
func (j *Jobs) Describe(descs chan<- *prometheus.Desc) { j.all.Describe(descs) }

// Collect implements prometheus.Collector.
func (j *Jobs) Collect(metrics chan<- prometheus.Metric) { j.all.Collect(metrics) }
