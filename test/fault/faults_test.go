// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	faultFlag   = flag.String("fault", "", "run only this fault, for example F2")
	backendFlag = flag.String("backend", "", "run only this backend: redis or postgres")
	seedFlag    = flag.Uint64("seed", 1, "the seed of the first run")
	allFlag     = flag.Bool("all", false, "run all faults, not only those that a change is tested with")
	roundsFlag  = flag.Int("rounds", 1, "how many runs of each fault on each backend, each with the next seed")
)

// fault is something that goes wrong.
type fault struct {
	name, title string
	// backends are those that it can hit.
	backends []string
	// inject does it once, and returns when it is over.
	inject func(r *rig)
	// breaks says that exclusion is expected to break, as the documentation of the backend says; the fence must hold.
	breaks bool
	// stretches says that the store may keep a key for longer than its TTL.
	stretches bool
	// usual says that every change is tested with it.
	usual bool
	// healthy says that nothing is wrong.
	healthy bool
}

// usual is the size of a run.
func usual() shape { return shape{clients: 5, workers: 4, keys: 8, length: 6 * time.Second} }

// TestFaults runs every fault on every backend that it can hit, and demands that what the library promises holds.
func TestFaults(t *testing.T) {
	var done progress
	for _, f := range faults() {
		for _, name := range f.backends {
			if chosen(f, name) {
				done.total += *roundsFlag
			}
		}
	}
	if done.total == 0 {
		t.Fatalf("there is no fault %q for backend %q; see the list in faults_test.go", *faultFlag, *backendFlag)
	}
	for _, name := range []string{"redis", "postgres"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, f := range faults() {
				if !slices.Contains(f.backends, name) || !chosen(f, name) {
					continue
				}
				t.Run(f.name, func(t *testing.T) {
					for i := range *roundsFlag {
						r := newRig(t, starters()[name](t), usual(), *seedFlag+uint64(i), "", f.healthy)
						res := r.run(f)
						r.verdict(f, res)
						done.tell(res)
					}
				})
			}
		})
	}
}

func chosen(f *fault, backend string) bool {
	named := strings.EqualFold(*faultFlag, f.name)
	usual := *faultFlag == "" && (*allFlag || f.usual)
	return (named || usual) && (*backendFlag == "" || *backendFlag == backend)
}

// verdict fails the test if the run has violations that it must not have.
func (r *rig) verdict(f *fault, res *result) {
	r.t.Helper()
	r.t.Logf("%s on %s, seed %d: %d histories, %d operations, flagged %v, lost without a fence %d of %d, with it %d of %d, refused %d, surprises %d",
		f.name, res.Backend, res.Seed, res.Histories, res.Operations, res.Flagged, res.Open.Lost, res.Open.Acknowledged, res.Fenced.Lost, res.Fenced.Acknowledged,
		res.Fenced.Refused, res.Surprises)
	found := res.unexpected()
	if len(found) > 0 {
		where := r.keep(res, found)
		for _, v := range found[:min(len(found), 5)] {
			r.t.Errorf("%s: key %s: %s", v.Checker, v.Key, v.Problem)
		}
		r.t.Errorf("%d violations; kept in %s; again: make fault FAULT=%s BACKEND=%s SEED=%d", len(found), where, f.name, res.Backend, res.Seed)
	}
	if res.Operations < 20 || res.Fenced.Acknowledged == 0 {
		r.t.Errorf("only %d operations and %d writes: the run shows nothing", res.Operations, res.Fenced.Acknowledged)
	}
	if res.Leaked > 0 {
		r.t.Errorf("clients left %d goroutines behind", res.Leaked)
	}
	if f.healthy && res.Fenced.Lost+res.Open.Lost > 0 {
		r.t.Errorf("updates were lost in health: %+v", res.Open)
	}
	if err := appendResult(res); err != nil {
		r.t.Error(err)
	}
}

// name is that of the process that runs now.
func (s *slot) name() string { return fmt.Sprintf("%s.%d", s.config.Name, len(s.files)) }

// progress draws a bar, one line a run.
type progress struct {
	mu          sync.Mutex
	total, done int
}

func (p *progress) tell(res *result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	const width = 30
	bar := strings.Repeat("#", width*p.done/p.total) + strings.Repeat(".", width-width*p.done/p.total)
	fmt.Fprintf(os.Stderr, "[%s] %d/%d  %s on %s: %d operations, flagged %v\n", bar, p.done, p.total, res.Fault, res.Backend, res.Operations, res.Flagged)
}

var resultsMutex sync.Mutex

// appendResult adds a line to results.jsonl, from which the report is made.
func appendResult(res *result) error {
	resultsMutex.Lock()
	defer resultsMutex.Unlock()
	if err := os.MkdirAll(outputDir(), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(outputDir(), "results.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	var line bytes.Buffer
	if err := json.NewEncoder(&line).Encode(res); err != nil {
		return err
	}
	_, err = file.Write(line.Bytes())
	return err
}
