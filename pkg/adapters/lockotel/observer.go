// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lockotel makes OpenTelemetry spans and metrics of what a lock client does. It needs the API of OpenTelemetry only; the application brings
// the SDK.
//
//	observer, err := lockotel.NewObserver(nil)
//	…
//	client, err := lockstead.Open(ctx, &lockstead.Options{Lock: &lock.Options{Observers: []*lock.Observer{observer}}})
//
// # Spans
//
// Acquire and TryAcquire are a span "lock.acquire", Do is "lock.do" around the acquire, the work and the release, and a release is "lock.release". The
// work of Do, and the requests of an instrumented client of the store, are inside. A lock that is lost is an event "lock.lost" of the span in which it was
// acquired: for Do its own, else the caller's.
//
// The status is Error when the store was at fault, the arguments were, or the lock was lost. A key that somebody else holds, and a caller that gave
// up, are answers, and leave it unset. A span has the key, and the text of errors, which can name the key, only with Options.Keys.
//
// # Metrics
//
// The page docs/metrics.md of the repository lists every instrument. None has a key as an attribute.
package lockotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Options are what NewObserver can be told. The zero value, or nil, is ready to use.
type Options struct {
	// TracerProvider makes the tracer. Defaults to the global one.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the meter. Defaults to the global one.
	MeterProvider metric.MeterProvider
	// Attributes are put on every span and measurement, for example the backend and the lock namespace. Defaults to none.
	Attributes []attribute.KeyValue
	// Keys puts the application's keys and the text of errors on spans. Keys can be sensitive: they often are the ids of customers. Defaults to
	// neither.
	Keys bool
}

// Attributes of spans and measurements. Attribute "error.type", of OpenTelemetry's conventions, has the outcome of a span whose status is Error.
const (
	// KeyAttribute is the application's key, on spans with Options.Keys.
	KeyAttribute = attribute.Key("lockstead.lock.key")
	// OutcomeAttribute is a lock.Outcome.
	OutcomeAttribute = attribute.Key("lockstead.lock.outcome")
	// ReasonAttribute is a lock.LossReason, or the reason of a fault of the store.
	ReasonAttribute = attribute.Key("lockstead.lock.reason")
	// OperationAttribute is the request that failed: "acquire", "pass", "renew", "release" or "subscribe".
	OperationAttribute = attribute.Key("lockstead.lock.operation")
	// TokenAttribute is the fencing token, on spans.
	TokenAttribute = attribute.Key("lockstead.lock.token")
	// PassedOnAttribute says that the lock was passed on within the process, on spans of acquires.
	PassedOnAttribute = attribute.Key("lockstead.lock.passed_on")

	errorType = attribute.Key("error.type")
)

const scope = "github.com/lockstead/lockstead/pkg/adapters/lockotel"

// NewObserver makes what to give to a lock client as one of lock.Options.Observers. The error is that of a meter provider that refuses an instrument.
func NewObserver(options *Options) (*lock.Observer, error) {
	var o Options
	if options != nil {
		o = *options
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	m, err := newInstruments(o.MeterProvider.Meter(scope), o.Attributes)
	if err != nil {
		return nil, fmt.Errorf("lockotel: %w", err)
	}
	s := &spans{tracer: o.TracerProvider.Tracer(scope), attributes: o.Attributes, keys: o.Keys}
	return &lock.Observer{
		AcquireStart: func(ctx context.Context, e lock.AcquireStartEvent) context.Context {
			return s.start(ctx, "lock.acquire", e.Key, trace.SpanKindClient)
		},
		AcquireEnd: func(ctx context.Context, e lock.AcquireEndEvent) {
			m.acquired(ctx, e)
			more := []attribute.KeyValue{OutcomeAttribute.String(string(e.Outcome))}
			if e.Outcome == lock.OutcomeGranted {
				more = append(more, TokenAttribute.String(e.Token.String()), PassedOnAttribute.Bool(e.PassedOn))
			}
			s.end(ctx, e.Outcome, e.Err, more...)
		},
		DoStart: func(ctx context.Context, e lock.DoStartEvent) context.Context {
			return s.start(ctx, "lock.do", e.Key, trace.SpanKindInternal)
		},
		DoEnd: func(ctx context.Context, e lock.DoEndEvent) { s.end(ctx, outcomeOfDo(e), e.Err) },
		ReleaseStart: func(ctx context.Context, e lock.ReleaseStartEvent) context.Context {
			return s.start(ctx, "lock.release", e.Key, trace.SpanKindClient)
		},
		ReleaseEnd: func(ctx context.Context, e lock.ReleaseEndEvent) {
			m.released(ctx, e)
			s.end(ctx, e.Outcome, e.Err, OutcomeAttribute.String(string(e.Outcome)), TokenAttribute.String(e.Token.String()))
		},
		HoldEnd: func(ctx context.Context, e lock.HoldEndEvent) {
			m.ended(ctx, e)
			if e.Reason != "" {
				trace.SpanFromContext(ctx).AddEvent("lock.lost", trace.WithAttributes(ReasonAttribute.String(string(e.Reason)), TokenAttribute.String(e.Token.String())))
			}
		},
		Renew:   m.renewed,
		Cleanup: m.cleanedUp,
		Fault:   m.failed,
	}, nil
}

type spans struct {
	tracer     trace.Tracer
	attributes []attribute.KeyValue
	keys       bool
}

func (s *spans) start(ctx context.Context, name, key string, kind trace.SpanKind) context.Context {
	options := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(s.attributes...)}
	if s.keys {
		options = append(options, trace.WithAttributes(KeyAttribute.String(key)))
	}
	ctx, span := s.tracer.Start(ctx, name, options...)
	return context.WithValue(ctx, spanOf{s}, span)
}

// spanOf is the key of the span that the End hook ends: an observer behind this one may have put a span of its own over it.
type spanOf struct{ *spans }

func (s *spans) end(ctx context.Context, outcome lock.Outcome, err error, attributes ...attribute.KeyValue) {
	span, ok := ctx.Value(spanOf{s}).(trace.Span)
	if !ok {
		return // An observer behind this one gave another context.
	}
	span.SetAttributes(attributes...)
	if !answer(outcome) {
		span.SetAttributes(errorType.String(string(outcome)))
		span.SetStatus(codes.Error, string(outcome))
		if s.keys && err != nil {
			span.RecordError(err)
		}
	}
	span.End()
}

// What came of the work under Do, beside the outcomes of an acquire.
const (
	workDone     lock.Outcome = "done"
	workFailed   lock.Outcome = "failed"
	workPanicked lock.Outcome = "panicked"
)

func outcomeOfDo(e lock.DoEndEvent) lock.Outcome {
	switch {
	case e.Panicked:
		return workPanicked
	case e.Err == nil:
		return workDone
	case errors.Is(e.Err, lock.ErrLost):
		return lock.OutcomeLost
	case e.Ran:
		return workFailed
	case errors.Is(e.Err, lock.ErrHeld):
		return lock.OutcomeHeld
	case errors.Is(e.Err, context.Canceled), errors.Is(e.Err, context.DeadlineExceeded):
		return lock.OutcomeCancelled
	}
	return "not-acquired" // The span of the acquire has more.
}

// answer reports whether an outcome is one that callers count with.
func answer(o lock.Outcome) bool {
	switch o {
	case lock.OutcomeGranted, lock.OutcomeHeld, lock.OutcomeReleased, lock.OutcomeCancelled, workDone:
		return true
	default:
		return false
	}
}
