// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package result

import "testing"

func TestJudge(t *testing.T) {
	t.Parallel()
	rounds := func(values ...float64) (rounds []map[string]float64) {
		for _, v := range values {
			rounds = append(rounds, map[string]float64{"time": v})
		}
		return rounds
	}
	m := Measure{Series: []Series{
		{Subject: "raw", Rounds: rounds(10, 20, 10)},
		{Subject: "ours", Rounds: rounds(11, 22, 11)},
		{Subject: "quick", Peer: true, Rounds: rounds(10, 22, 12)},
		{Subject: "slow", Peer: true, Rounds: rounds(30, 60, 30)},
	}}
	for name, c := range map[string]struct {
		target  Target
		reached bool
		than    string
	}{
		"absolute, reached":     {Target{Subject: "ours", Metric: "time", Limit: 11}, true, ""},
		"absolute, missed":      {Target{Subject: "ours", Metric: "time", Limit: 10}, false, ""},
		"at least, reached":     {Target{Subject: "ours", Metric: "time", Limit: 11, AtLeast: true}, true, ""},
		"the baseline":          {Target{Subject: "ours", Metric: "time", Than: "raw", Limit: 1.1}, true, "raw"},
		"the baseline, missed":  {Target{Subject: "ours", Metric: "time", Than: "raw", Limit: 1.05}, false, "raw"},
		"the quickest peer":     {Target{Subject: "ours", Metric: "time", Than: Peers, Limit: 1}, true, "quick"},
		"the best, if more is":  {Target{Subject: "ours", Metric: "time", Than: Peers, Limit: 1, AtLeast: true}, false, "slow"},
		"far ahead of the best": {Target{Subject: "ours", Metric: "time", Than: Peers, Limit: 0.5}, false, "quick"},
	} {
		got, ok := m.Judge(c.target)
		if !ok || got.Reached != c.reached || got.Than != c.than {
			t.Errorf("%s: judged %+v, want reached %t, compared with %q", name, got, c.reached, c.than)
		}
	}
	for _, missing := range []Target{{Subject: "ours", Metric: "other", Limit: 1}, {Subject: "ours", Metric: "time", Than: "nobody", Limit: 1}} {
		if v, ok := m.Judge(missing); ok {
			t.Errorf("what was not measured was judged: %+v", v)
		}
	}
}
