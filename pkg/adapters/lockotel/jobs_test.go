// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockotel_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockstead/lockstead/pkg/adapters/lockotel"
	"github.com/lockstead/lockstead/pkg/exclusive"
)

// Names that the program makes up at run time do not become time series of their own.
func TestJobsAreCounted(t *testing.T) {
	reader := metric.NewManualReader()
	count, err := lockotel.NewJobObserver([]string{"report"}, &lockotel.JobOptions{
		MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)), Attributes: []attribute.KeyValue{attribute.String("namespace", "test/one")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, outcome := range exclusive.Outcomes() {
		for _, job := range []string{"report", "customer:1", "customer:2"} {
			count(t.Context(), exclusive.Event{Job: job, Outcome: outcome, Took: time.Minute})
		}
	}
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	runs, durations := map[string]int64{}, map[string]uint64{}
	word := func(set attribute.Set, key attribute.Key) string {
		if namespace, ok := set.Value("namespace"); !ok || namespace.AsString() != "test/one" {
			t.Errorf("a measurement has the attributes %v", set)
		}
		v, _ := set.Value(key)
		return v.AsString()
	}
	for _, m := range collected.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				runs[word(p.Attributes, lockotel.JobNameAttribute)+" "+word(p.Attributes, lockotel.JobOutcomeAttribute)] = p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				durations[word(p.Attributes, lockotel.JobNameAttribute)] = p.Count
			}
		}
	}
	wantRuns := map[string]int64{}
	for _, outcome := range exclusive.Outcomes() {
		wantRuns["report "+string(outcome)], wantRuns[lockotel.OtherJob+" "+string(outcome)] = 1, 2
	}
	if !maps.Equal(runs, wantRuns) {
		t.Errorf("the runs are %v, want %v", runs, wantRuns)
	}
	// A job that was skipped, refused or not run has no duration.
	if want := map[string]uint64{"report": 4, lockotel.OtherJob: 8}; !maps.Equal(durations, want) {
		t.Errorf("the durations are %v, want %v", durations, want)
	}
}

// refusing is a meter provider that makes no instruments.
type refusing struct{ noop.MeterProvider }

type refusingMeter struct{ noop.Meter }

var errRefused = errors.New("no instruments today")

func (refusing) Meter(string, ...api.MeterOption) api.Meter { return refusingMeter{} }

func (refusingMeter) Int64Counter(string, ...api.Int64CounterOption) (api.Int64Counter, error) {
	return nil, errRefused
}

func TestARefusedInstrumentIsTold(t *testing.T) {
	if _, err := lockotel.NewJobObserver(nil, &lockotel.JobOptions{MeterProvider: refusing{}}); !errors.Is(err, errRefused) {
		t.Errorf("a meter provider that refuses an instrument: %v", err)
	}
}
