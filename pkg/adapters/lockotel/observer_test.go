// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockotel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockstead/lockstead/pkg/adapters/lockotel"
	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

// stopping is a store that fails with what a test says.
type stopping struct {
	*memlock.Driver
	fault error
}

func (s *stopping) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	if s.fault != nil {
		return driver.Grant{}, s.fault
	}
	return s.Driver.Acquire(ctx, req)
}

type setup struct {
	store  *stopping
	client *lock.Client
	tracer *trace.TracerProvider
	spans  *tracetest.SpanRecorder
	reader *metric.ManualReader
}

func open(t *testing.T, keys bool) *setup {
	t.Helper()
	s := &setup{spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	s.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(s.spans))
	o, err := lockotel.NewObserver(&lockotel.Options{
		TracerProvider: s.tracer, MeterProvider: metric.NewMeterProvider(metric.WithReader(s.reader)),
		Attributes: []attribute.KeyValue{attribute.String("backend", "memory")}, Keys: keys,
	})
	if err != nil {
		t.Fatal(err)
	}
	cl := clock.Monotonic()
	s.store = &stopping{Driver: memlock.New(&memlock.Options{Clock: cl})}
	s.client, err = lock.New(s.store, "lk:{test/one}:", &lock.Options{Clock: cl, Observers: []*lock.Observer{o, {
		// Another observer that puts a span over that of the first.
		AcquireStart: func(ctx context.Context, _ lock.AcquireStartEvent) context.Context {
			ctx, span := s.tracer.Tracer("other").Start(ctx, "other")
			span.End()
			return ctx
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close(context.Background()) })
	return s
}

// tell writes a span as one line: parent > name, status, attributes, events.
func (s *setup) tell() []string {
	names := map[string]string{}
	for _, span := range s.spans.Ended() {
		names[span.SpanContext().SpanID().String()] = span.Name()
	}
	var lines []string
	for _, span := range s.spans.Ended() {
		if span.Name() == "other" {
			continue
		}
		line := fmt.Sprintf("%s > %s %s", names[span.Parent().SpanID().String()], span.Name(), span.Status().Code)
		if span.Status().Code == codes.Error {
			line += "(" + span.Status().Description + ")"
		}
		for _, a := range span.Attributes() {
			if a.Key != lockotel.TokenAttribute {
				line += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
			}
		}
		for _, e := range span.Events() {
			line += " +" + e.Name
		}
		lines = append(lines, line)
	}
	s.spans.Reset()
	return lines
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("spans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, false)
		ctx, app := s.tracer.Tracer("app").Start(t.Context(), "app")
		h, err := s.client.TryAcquire(ctx, "customer:4711", 10*time.Second, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = s.client.TryAcquire(ctx, "customer:4711", 0, time.Second)
		_ = h.Release(ctx)
		app.End()
		want(t, s.tell(),
			"app > lock.acquire Unset backend=memory lockstead.lock.outcome=granted lockstead.lock.passed_on=false",
			"app > lock.acquire Unset backend=memory lockstead.lock.outcome=held",
			"app > lock.release Unset backend=memory lockstead.lock.outcome=released",
			" > app Unset")

		err = s.client.Do(t.Context(), "customer:4711", func(ctx context.Context, _ *lock.Handle) error {
			_, work := s.tracer.Tracer("app").Start(ctx, "work")
			defer work.End()
			<-ctx.Done()
			synctest.Wait()
			return nil
		}, &lock.DoOptions{TTL: 10 * time.Second, MaxHold: time.Minute})
		if !errors.Is(err, lock.ErrLost) {
			t.Error(err)
		}
		want(t, s.tell(),
			"lock.do > lock.acquire Unset backend=memory lockstead.lock.outcome=granted lockstead.lock.passed_on=false",
			"lock.do > work Unset",
			"lock.do > lock.release Error(lost) backend=memory lockstead.lock.outcome=lost error.type=lost",
			" > lock.do Error(lost) backend=memory error.type=lost +lock.lost")

		_ = s.client.Do(t.Context(), "customer:4711", func(context.Context, *lock.Handle) error { return errors.New("customer:4711") }, nil)
		if got := s.tell(); got[len(got)-1] != " > lock.do Error(failed) backend=memory error.type=failed" {
			t.Errorf("the span of work that failed is %q", got)
		}
		s.store.fault = &driver.StoreError{Outcome: driver.ErrUnavailable, Op: "acquire", Reason: "refused", Err: errors.New("customer:4711")}
		_ = s.client.Do(t.Context(), "customer:4711", nil, nil)
		want(t, s.tell(),
			"lock.do > lock.acquire Error(unavailable) backend=memory lockstead.lock.outcome=unavailable error.type=unavailable",
			" > lock.do Error(not-acquired) backend=memory error.type=not-acquired")
	})
}

func TestSpansHaveTheKeyOnlyOnRequest(t *testing.T) {
	for _, keys := range []bool{false, true} {
		s := open(t, keys)
		s.store.fault = &driver.StoreError{Outcome: driver.ErrUnavailable, Op: "acquire", Reason: "refused", Err: errors.New("customer:4711")}
		_ = s.client.Do(t.Context(), "customer:4711", nil, nil)
		spans := s.spans.Ended()
		all := fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(spans))
		if got := strings.Contains(all, "customer:4711"); got != keys {
			t.Errorf("Keys %t: the spans have the key: %t", keys, got)
		}
		for _, span := range spans {
			if span.Name() != "other" && keys != slices.Contains(span.Attributes(), lockotel.KeyAttribute.String("customer:4711")) {
				t.Errorf("Keys %t: the attributes of %s are %v", keys, span.Name(), span.Attributes())
			}
		}
	}
}

// documented are the instruments of the page: "kind attributes" by name.
func documented(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	instruments := map[string]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.ReplaceAll(line, "`", ""), "|")
		if len(cells) == 6 && strings.HasPrefix(strings.TrimSpace(cells[1]), "lockstead.") {
			instruments[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2]) + " " + strings.TrimSpace(cells[3])
		}
	}
	return instruments
}

func attributes[P any](points []P, of func(P) attribute.Set) string {
	var names []string
	for _, p := range points {
		names = nil
		set := of(p)
		for _, a := range set.ToSlice() {
			if a.Key != "backend" {
				names = append(names, string(a.Key))
			}
		}
	}
	return strings.Join(names, ", ")
}

func TestThePageListsEveryInstrument(t *testing.T) {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	o, err := lockotel.NewObserver(&lockotel.Options{MeterProvider: provider})
	if err != nil {
		t.Fatal(err)
	}
	job, err := lockotel.NewJobObserver(nil, &lockotel.JobOptions{MeterProvider: provider})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	job(ctx, exclusive.Event{Outcome: exclusive.Ran})
	o.AcquireEnd(o.AcquireStart(ctx, lock.AcquireStartEvent{}), lock.AcquireEndEvent{Outcome: lock.OutcomeGranted, PassedOn: true, Waited: 40 * time.Millisecond})
	o.HoldEnd(ctx, lock.HoldEndEvent{Reason: lock.LossDeadline})
	o.ReleaseEnd(o.ReleaseStart(ctx, lock.ReleaseStartEvent{}), lock.ReleaseEndEvent{Outcome: lock.OutcomeLost})
	o.Renew(ctx, lock.RenewEvent{Outcome: lock.OutcomeRenewed})
	o.Cleanup(ctx, lock.CleanupEvent{Outcome: lock.OutcomeReleased})
	o.Fault(ctx, lock.FaultEvent{Op: "acquire", Reason: "timeout"})
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &collected); err != nil {
		t.Fatal(err)
	}
	page := documented(t)
	there := map[string]bool{}
	for _, m := range collected.ScopeMetrics[0].Metrics {
		there[m.Name] = true
		var got string
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			got = "histogram " + attributes(data.DataPoints, func(p metricdata.HistogramDataPoint[float64]) attribute.Set { return p.Attributes })
		case metricdata.Sum[int64]:
			kind := "counter "
			if !data.IsMonotonic {
				kind = "up-down counter "
			}
			got = kind + attributes(data.DataPoints, func(p metricdata.DataPoint[int64]) attribute.Set { return p.Attributes })
		}
		if want, ok := page[m.Name]; got != want {
			t.Errorf("%s is a %q, docs/metrics.md lists it: %t, as %q", m.Name, got, ok, want)
		}
	}
	for name := range page {
		if !there[name] {
			t.Errorf("docs/metrics.md lists %s, which does not exist", name)
		}
	}
}
