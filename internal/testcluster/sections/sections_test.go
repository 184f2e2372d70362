// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package sections

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// line is a record in short: the time is in milliseconds, the token is the sequence.
func line(event, pod, key string, token uint64, ms int64) Record {
	return Record{Event: event, Pod: pod, Key: key, Token: lock.Token{Epoch: 1, Sequence: token}, Boot: time.Duration(ms) * time.Millisecond}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		records                          []Record
		alive                            map[string]time.Duration
		sections, lost                   int
		overlaps, regressions, malformed int
	}{
		"sections one after another": {
			records: []Record{
				line(EventStart, "a", "k", 1, 10), line(EventEnd, "a", "k", 1, 20),
				line(EventStart, "b", "k", 2, 20), line(EventEnd, "b", "k", 2, 30),
			},
			sections: 2,
		},
		"different keys may overlap": {
			records: []Record{
				line(EventStart, "a", "k", 1, 10), line(EventStart, "a", "l", 1, 11),
				line(EventEnd, "a", "l", 1, 19), line(EventEnd, "a", "k", 1, 20),
			},
			sections: 2,
		},
		"planted overlap of two pods": {
			records: []Record{
				line(EventStart, "a", "k", 1, 10), line(EventEnd, "a", "k", 1, 20),
				line(EventStart, "b", "k", 2, 19), line(EventEnd, "b", "k", 2, 30),
			},
			sections: 2, overlaps: 1,
		},
		"planted overlap, the logs arriving in the other order": {
			records: []Record{
				line(EventStart, "b", "k", 2, 19), line(EventEnd, "b", "k", 2, 30),
				line(EventStart, "a", "k", 1, 10), line(EventEnd, "a", "k", 1, 20),
			},
			sections: 2, overlaps: 1,
		},
		"a short section inside a long one hides no third": {
			records: []Record{
				line(EventStart, "a", "k", 1, 10), line(EventEnd, "a", "k", 1, 100),
				line(EventStart, "b", "k", 2, 20), line(EventEnd, "b", "k", 2, 30),
				line(EventStart, "c", "k", 3, 40), line(EventEnd, "c", "k", 3, 50),
			},
			sections: 3, overlaps: 2,
		},
		"planted regression of the token": {
			records: []Record{
				line(EventStart, "a", "k", 5, 10), line(EventEnd, "a", "k", 5, 20),
				line(EventStart, "b", "k", 4, 30), line(EventEnd, "b", "k", 4, 40),
			},
			sections: 2, regressions: 1,
		},
		"the same token twice": {
			records: []Record{
				line(EventStart, "a", "k", 5, 10), line(EventEnd, "a", "k", 5, 20),
				line(EventStart, "b", "k", 5, 30), line(EventEnd, "b", "k", 5, 40),
			},
			sections: 2, regressions: 1,
		},
		"a pod that died in its section": {
			records: []Record{
				line(EventStart, "a", "k", 1, 10),
				line(EventStart, "b", "k", 2, 5000), line(EventEnd, "b", "k", 2, 6000),
			},
			sections: 1,
		},
		"taken over from a pod that was alive": {
			records: []Record{
				line(EventStart, "a", "k", 1, 10),
				line(EventStart, "b", "k", 2, 5000), line(EventEnd, "b", "k", 2, 6000),
			},
			alive:    map[string]time.Duration{"a": 5001 * time.Millisecond},
			sections: 1, overlaps: 1,
		},
		"a lock that was lost in time": {
			records: []Record{
				line(EventStart, "a", "k", 1, 10), line(EventLost, "a", "k", 1, 20),
				line(EventStart, "b", "k", 2, 30), line(EventEnd, "b", "k", 2, 40),
			},
			sections: 1, lost: 1,
		},
		"a lock that was lost too late": {
			records: []Record{
				line(EventStart, "a", "k", 1, 10), line(EventLost, "a", "k", 1, 31),
				line(EventStart, "b", "k", 2, 30), line(EventEnd, "b", "k", 2, 40),
			},
			sections: 1, lost: 1, overlaps: 1,
		},
		"an end without a start": {
			records:   []Record{line(EventEnd, "a", "k", 1, 10)},
			malformed: 1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history := NewHistory()
			for _, r := range tc.records {
				history.Add(r)
			}
			for pod, at := range tc.alive {
				history.Alive(pod, at)
			}
			got := history.Check()
			if got.Sections != tc.sections || got.Lost != tc.lost || len(got.Overlaps) != tc.overlaps ||
				len(got.Regressions) != tc.regressions || len(got.Malformed) != tc.malformed {
				t.Errorf("report: %+v\nwant sections=%d lost=%d overlaps=%d regressions=%d malformed=%d",
					got, tc.sections, tc.lost, tc.overlaps, tc.regressions, tc.malformed)
			}
		})
	}
}

func TestBackendsAreTold(t *testing.T) {
	t.Parallel()
	history := NewHistory()
	for _, backend := range []string{"redis", "lease", "redis"} {
		history.Add(Record{Event: EventReady, Pod: "a", Backend: backend})
	}
	if got := history.Check().Backends; !slices.Equal(got, []string{"lease", "redis"}) {
		t.Errorf("backends %q", got)
	}
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	history := NewHistory()
	history.Add(line(EventStart, "dead", "k", 1, 10))
	history.Add(line(EventStart, "dead", "l", 7, 11))
	open := history.OpenOf("dead")
	if len(open) != 2 || open[0].Key != "k" || open[1].Key != "l" {
		t.Fatalf("open sections: %v", open)
	}
	if next, ok := history.NextHolder(open[0]); ok {
		t.Fatalf("nobody has taken over yet, got %s", next)
	}
	history.Add(line(EventStart, "b", "l", 8, 4000))
	history.Add(line(EventStart, "b", "k", 2, 5010))
	next, ok := history.NextHolder(open[0])
	if !ok || next.Pod != "b" || next.Start != 5010*time.Millisecond {
		t.Errorf("next holder: %s, %t", next, ok)
	}
	if holding := history.Holding(); holding["k"].Pod != "b" || holding["l"].Token.Sequence != 8 {
		t.Errorf("holding: %v", holding)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	token := lock.Token{Epoch: 3, Sequence: 17}
	r, err := Parse([]byte(`{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"section started","pod":"w-1","boot_ns":1500000000,"event":"start","key":"order-1","token":"` + token.String() + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Event != EventStart || r.Pod != "w-1" || r.Key != "order-1" || r.Token != token || r.Boot != 1500*time.Millisecond {
		t.Errorf("record: %+v", r)
	}
	if _, err := Parse([]byte(`{"level":"WARN","msg":"a line of the library"}`)); err != nil {
		t.Errorf("a line without an event: %v", err)
	}
	for name, bad := range map[string]string{
		"not JSON": "panic: runtime error",
		"no token": `{"event":"start","pod":"w","key":"k","boot_ns":1}`,
		"no time":  `{"event":"end","pod":"w","key":"k","token":"` + token.String() + `"}`,
	} {
		if _, err := Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), "log line") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
