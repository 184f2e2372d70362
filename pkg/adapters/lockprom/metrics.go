// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lockprom counts for Prometheus what a lock client does, and what becomes of jobs.
//
//	metrics := lockprom.New(nil)
//	registry.MustRegister(metrics)
//	client, err := lockstead.Open(ctx, &lockstead.Options{Lock: &lock.Options{Observers: []*lock.Observer{metrics.Observer()}}})
//
// NewJobs is the same for the jobs of package exclusive.
//
// Nothing is registered globally, and no metric has a key, an owner or a path as a label. The page docs/metrics.md of the repository lists every
// metric with its type, labels and meaning.
//
// Counters of a fixed set of outcomes or reasons are there, with value 0, from the beginning, so that a rate over the first event is right.
package lockprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Options are what New can be told. The zero value, or nil, is ready to use.
type Options struct {
	// Backend is the value of the label "backend" of every metric, for example "redis" or "lease". Defaults to no such label.
	//
	// A program that does not know it yet wraps its registerer: prometheus.WrapRegistererWith(prometheus.Labels{"backend": …}, registerer).
	Backend string
	// LockNamespace is the value of the label "lock_namespace" of every metric, for example "payments/billing". Programs with several
	// clients need it to register the metrics of each. Defaults to no such label.
	LockNamespace string
	// WaitBuckets are the upper bounds, in seconds, for the time that an acquire took. Defaults to DefaultWaitBuckets.
	WaitBuckets []float64
	// HoldBuckets are the upper bounds, in seconds, for the time that a lock was held. Defaults to DefaultHoldBuckets.
	HoldBuckets []float64
	// RenewBuckets are the upper bounds, in seconds, for the time that a renewal took. Defaults to DefaultRenewBuckets.
	RenewBuckets []float64
	// NativeHistograms adds native histograms, of a growth factor of 1.1 and at most 160 buckets, to the classic ones. Defaults to none.
	NativeHistograms bool
}

// DefaultWaitBuckets go from a grant at once on Redis to the waits of migrations: 1 ms to 5 min.
func DefaultWaitBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
}

// DefaultHoldBuckets go from a read-compare-remove to long jobs: 5 ms to 1 h.
func DefaultHoldBuckets() []float64 {
	return []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}
}

// DefaultRenewBuckets go from a server on the same machine to the default time-out of a request: 0.5 ms to 5 s.
func DefaultRenewBuckets() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
}

// Metrics are the metrics of one or several lock clients. Register them once. They are safe for concurrent use.
type Metrics struct {
	acquires, lost, releases, renewals, cleanups, faults *prometheus.CounterVec
	passed                                               prometheus.Counter
	inProgress, held                                     prometheus.Gauge
	wait                                                 *prometheus.HistogramVec
	hold, renew                                          prometheus.Histogram

	all collectors
}

var _ prometheus.Collector = (*Metrics)(nil)

// New makes metrics that are not registered yet.
func New(options *Options) *Metrics {
	var o Options
	if options != nil {
		o = *options
	}
	f := factory{labels: prometheus.Labels{}, native: o.NativeHistograms}
	if o.Backend != "" {
		f.labels["backend"] = o.Backend
	}
	if o.LockNamespace != "" {
		f.labels["lock_namespace"] = o.LockNamespace
	}
	m := &Metrics{
		acquires:   f.counter("lock_acquire_total", "Acquires that ended, by outcome.", "outcome"),
		passed:     f.counter("lock_passed_on_total", "Acquires that were granted by passing the lock on within the process.").WithLabelValues(),
		lost:       f.counter("lock_lost_total", "Locks that ended before they were released, by reason.", "reason"),
		releases:   f.counter("lock_release_total", "Releases that ended, by outcome; lost means that the section was not exclusive for all of its time.", "outcome"),
		renewals:   f.counter("lock_renew_total", "Renewals that were sent and ended, by outcome.", "outcome"),
		cleanups:   f.counter("lock_cleanup_total", "Background releases of acquisitions that the store may have recorded although nobody holds them, by outcome.", "outcome"),
		faults:     f.counter("lock_store_faults_total", "Requests that failed because of the store or the way to it, by operation and reason.", "op", "reason"),
		inProgress: f.gauge("lock_acquires_in_progress", "Acquires that have begun and not ended."),
		held:       f.gauge("locks_held", "Locks that are held."),
		wait:       f.histogram("lock_acquire_wait_seconds", "Time from the call to the end of an acquire, by outcome.", or(o.WaitBuckets, DefaultWaitBuckets), "outcome"),
	}
	hold := f.histogram("lock_hold_seconds", "Time from the request that was granted to the end of the lock, released or lost.", or(o.HoldBuckets, DefaultHoldBuckets))
	renew := f.histogram("lock_renew_duration_seconds", "Time until a renewal was answered, or given up.", or(o.RenewBuckets, DefaultRenewBuckets))
	m.hold, m.renew = hold.WithLabelValues().(prometheus.Histogram), renew.WithLabelValues().(prometheus.Histogram)
	m.all = f.all
	for vec, values := range map[*prometheus.CounterVec][]lock.Outcome{
		m.acquires: {
			lock.OutcomeGranted, lock.OutcomeHeld, lock.OutcomeUnavailable, lock.OutcomeUnknown, lock.OutcomeForeign, lock.OutcomeBackendChanged,
			lock.OutcomeClosed, lock.OutcomeCancelled, lock.OutcomeInvalid, lock.OutcomeLost,
		},
		m.releases: {lock.OutcomeReleased, lock.OutcomeLost, lock.OutcomeUnavailable, lock.OutcomeUnknown, lock.OutcomeBackendChanged},
		m.renewals: {
			lock.OutcomeRenewed, lock.OutcomeLost, lock.OutcomeUnavailable, lock.OutcomeUnknown, lock.OutcomeBackendChanged, lock.OutcomeCancelled,
		},
		m.cleanups: {lock.OutcomeReleased, lock.OutcomeNotHolder, lock.OutcomeExpired, lock.OutcomeDropped},
	} {
		for _, value := range values {
			vec.WithLabelValues(string(value))
		}
	}
	for _, reason := range []lock.LossReason{lock.LossDeadline, lock.LossNotHolder, lock.LossStoreChanged, lock.LossBackendChanged, lock.LossMaxHold} {
		m.lost.WithLabelValues(string(reason))
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) { m.all.Describe(descs) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) { m.all.Collect(metrics) }

// collectors are described and collected together.
type collectors []prometheus.Collector

func (l collectors) Describe(descs chan<- *prometheus.Desc) {
	for _, c := range l {
		c.Describe(descs)
	}
}

func (l collectors) Collect(metrics chan<- prometheus.Metric) {
	for _, c := range l {
		c.Collect(metrics)
	}
}

func or(given []float64, usual func() []float64) []float64 {
	if given == nil {
		return usual()
	}
	return given
}

// factory makes collectors with the same prefix and constant labels.
type factory struct {
	labels prometheus.Labels
	native bool
	all    collectors
}

const prefix = "lockstead_"

func (f *factory) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help, ConstLabels: f.labels}, labels)
	f.all = append(f.all, c)
	return c
}

func (f *factory) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help, ConstLabels: f.labels})
	f.all = append(f.all, g)
	return g
}

func (f *factory) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	o := prometheus.HistogramOpts{Name: prefix + name, Help: help, ConstLabels: f.labels, Buckets: buckets}
	if f.native {
		o.NativeHistogramBucketFactor = 1.1
		o.NativeHistogramMaxBucketNumber = 160
		o.NativeHistogramMinResetDuration = time.Hour
	}
	h := prometheus.NewHistogramVec(o, labels)
	f.all = append(f.all, h)
	return h
}
