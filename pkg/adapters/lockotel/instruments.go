// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockstead/lockstead/pkg/lock"
)

type instruments struct {
	attributes []attribute.KeyValue

	wait, hold, renew                        metric.Float64Histogram
	held                                     metric.Int64UpDownCounter
	passed, lost, releases, cleanups, faults metric.Int64Counter
}

// newInstruments sets bounds in seconds, since the API's defaults are for milliseconds.
func newInstruments(meter metric.Meter, attributes []attribute.KeyValue) (*instruments, error) {
	var errs []error
	histogram := func(name, description string, bounds ...float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithDescription(description), metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	counter := func(name, description, unit string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithDescription(description), metric.WithUnit(unit))
		errs = append(errs, err)
		return c
	}
	held, err := meter.Int64UpDownCounter("lockstead.lock.held", metric.WithDescription("Locks that are held."), metric.WithUnit("{lock}"))
	errs = append(errs, err)
	m := &instruments{
		attributes: attributes,
		wait: histogram("lockstead.lock.acquire.wait", "Time from the call to the end of an acquire.",
			.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300),
		hold: histogram("lockstead.lock.hold", "Time from the request that was granted to the end of the lock.",
			.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600),
		renew: histogram("lockstead.lock.renew.duration", "Time until a renewal was answered, or given up.",
			.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5),
		held:     held,
		passed:   counter("lockstead.lock.passed_on", "Acquires that were granted by passing the lock on within the process.", "{acquire}"),
		lost:     counter("lockstead.lock.lost", "Locks that ended before they were released.", "{lock}"),
		releases: counter("lockstead.lock.releases", "Releases that ended.", "{release}"),
		cleanups: counter("lockstead.lock.cleanups", "Background releases of acquisitions that the store may have recorded although nobody holds them.", "{release}"),
		faults:   counter("lockstead.lock.store.faults", "Requests that failed because of the store or the way to it.", "{request}"),
	}
	return m, errors.Join(errs...)
}

// with are the attributes of a measurement.
func (m *instruments) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(more, m.attributes...)...)
}

func outcome(o lock.Outcome) attribute.KeyValue { return OutcomeAttribute.String(string(o)) }

func (m *instruments) acquired(ctx context.Context, e lock.AcquireEndEvent) {
	m.wait.Record(ctx, e.Waited.Seconds(), m.with(outcome(e.Outcome)))
	if e.PassedOn {
		m.passed.Add(ctx, 1, m.with())
	}
	if e.Outcome == lock.OutcomeGranted {
		m.held.Add(ctx, 1, m.with())
	}
}

func (m *instruments) released(ctx context.Context, e lock.ReleaseEndEvent) {
	m.releases.Add(ctx, 1, m.with(outcome(e.Outcome)))
}

func (m *instruments) ended(ctx context.Context, e lock.HoldEndEvent) {
	m.held.Add(ctx, -1, m.with())
	m.hold.Record(ctx, e.Held.Seconds(), m.with())
	if e.Reason != "" {
		m.lost.Add(ctx, 1, m.with(ReasonAttribute.String(string(e.Reason))))
	}
}

func (m *instruments) renewed(ctx context.Context, e lock.RenewEvent) {
	m.renew.Record(ctx, e.Took.Seconds(), m.with(outcome(e.Outcome)))
}

func (m *instruments) cleanedUp(ctx context.Context, e lock.CleanupEvent) {
	m.cleanups.Add(ctx, 1, m.with(outcome(e.Outcome)))
}

func (m *instruments) failed(ctx context.Context, e lock.FaultEvent) {
	m.faults.Add(ctx, 1, m.with(OperationAttribute.String(e.Op), ReasonAttribute.String(e.Reason)))
}
