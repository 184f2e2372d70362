// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package result is what a run of the benchmark measured, as it is written to disk, and what the run says of the figures to reach.
package result

import (
	"math"

	"github.com/lockstead/lockstead/test/bench/internal/stats"
)

// Report is one run.
type Report struct {
	Machine  Machine   `json:"machine"`
	Quick    bool      `json:"quick"`
	Measures []Measure `json:"measures"`
}

// Machine is where the run took place.
type Machine struct {
	Day    string `json:"day"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	// Servers are the versions of those that took part.
	Servers map[string]string `json:"servers,omitempty"`
}

// Measure is one thing that was measured of several subjects, in interleaved rounds.
type Measure struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Scenario is what measured it, and Load what the load of the machine was at its end.
	Scenario string  `json:"scenario"`
	Load     float64 `json:"load"`
	// Text says how it was measured.
	Text string `json:"text"`
	// Curve is common to the measures that are points of one curve, and X is the place of this one on the axis XLabel.
	Curve  string  `json:"curve,omitempty"`
	X      float64 `json:"x,omitempty"`
	XLabel string  `json:"xLabel,omitempty"`
	// Baseline is the subject that the others are compared with.
	Baseline string   `json:"baseline,omitempty"`
	Metrics  []Metric `json:"metrics"`
	Series   []Series `json:"series"`
	Targets  []Target `json:"targets,omitempty"`
}

// Metric is one figure of a measure. The first of a measure is the one that is drawn.
type Metric struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
}

// Series is what was measured of one subject: each round has a value for each metric.
type Series struct {
	Subject string               `json:"subject"`
	Peer    bool                 `json:"peer,omitempty"`
	Rounds  []map[string]float64 `json:"rounds"`
}

// Peers stands in a target for each subject that is one.
const Peers = "peers"

// Target is a figure to reach.
type Target struct {
	Subject string `json:"subject"`
	Metric  string `json:"metric"`
	// Than is the subject that the limit is a multiple of, or Peers; "" means that the limit is absolute.
	Than  string  `json:"than,omitempty"`
	Limit float64 `json:"limit"`
	// AtLeast turns the comparison round.
	AtLeast bool `json:"atLeast,omitempty"`
	// Why says, for a figure that is not reached, what the limit is.
	Why string `json:"why,omitempty"`
}

// Verdict is what came of a target: the figure, or the ratio that is worst for the subject.
type Verdict struct {
	Value   stats.Spread
	Than    string
	Reached bool
}

// Values are those of one metric of one subject, round by round.
func (m Measure) Values(subject, metric string) []float64 {
	var values []float64
	for _, s := range m.Series {
		if s.Subject == subject {
			for _, round := range s.Rounds {
				if v, ok := round[metric]; ok {
					values = append(values, v)
				} else {
					values = append(values, math.NaN())
				}
			}
		}
	}
	return values
}

// Summary is the spread of a metric of one subject. It is false when nothing was measured.
func (m Measure) Summary(subject, metric string) (stats.Spread, bool) {
	var values []float64
	for _, v := range m.Values(subject, metric) {
		if !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return stats.Summarize(values), len(values) > 0
}

// Ratio is that of two subjects, taken within each round.
func (m Measure) Ratio(subject, than, metric string) (stats.Spread, bool) {
	ratios := stats.Ratios(m.Values(subject, metric), m.Values(than, metric))
	return stats.Summarize(ratios), len(ratios) > 0
}

// Judge compares with a target. It is false when the measure lacks what the target speaks of.
func (m Measure) Judge(t Target) (Verdict, bool) {
	if t.Than == "" {
		value, ok := m.Summary(t.Subject, t.Metric)
		return Verdict{Value: value, Reached: t.met(value.Median)}, ok
	}
	var worst Verdict
	found := false
	for _, s := range m.Series {
		if s.Subject != t.Than && (t.Than != Peers || !s.Peer) {
			continue
		}
		value, ok := m.Ratio(t.Subject, s.Subject, t.Metric)
		if !ok {
			continue
		}
		worse := value.Median > worst.Value.Median
		if t.AtLeast {
			worse = value.Median < worst.Value.Median
		}
		if !found || worse {
			worst = Verdict{Value: value, Than: s.Subject, Reached: t.met(value.Median)}
		}
		found = true
	}
	return worst, found
}

func (t Target) met(value float64) bool {
	if t.AtLeast {
		return value >= t.Limit
	}
	return value <= t.Limit
}
