// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/internal/testcluster/sections"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"POD_NAME": "worker-0", "WORKER_TTL": "7s", "WORKER_SECTION_MAX": "3s"}
	getenv := func(name string) string { return environment[name] }

	c, err := parseConfig([]string{"--keys= a, b ,", "--ttl=9s", "--graceful-stop=false"}, getenv)
	if err != nil {
		t.Fatal(err)
	}
	if c.pod != "worker-0" || c.ttl != 9*time.Second || c.sectionMax != 3*time.Second || c.gracefulStop || len(c.keys) != 2 || c.keys[1] != "b" {
		t.Errorf("config: %+v", c)
	}
	for name, args := range map[string][]string{
		"no key":               {"--keys=,"},
		"sections reversed":    {"--section-min=4s"},
		"negative wait":        {"--wait=-1s"},
		"unknown flag":         {"--key=a"},
		"a stray argument":     {"a"},
		"a section of no time": {"--section-min=0s"},
	} {
		if c, err := parseConfig(args, getenv); err == nil {
			t.Errorf("%s was accepted: %+v", name, c)
		}
	}
	environment["WORKER_WAIT"] = "long"
	if _, err := parseConfig(nil, getenv); err == nil || !strings.Contains(err.Error(), "WORKER_WAIT") {
		t.Errorf("a wrong environment variable: %v", err)
	}
}

// Three workers on one store log what the judge can read, never overlap, and leave nothing held when they stop.
func TestWorkersShareKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ticking := clock.Monotonic()
		store := memlock.New(&memlock.Options{Clock: ticking})
		var output safeBuffer
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var workers sync.WaitGroup
		for i := range 3 {
			client, err := lock.New(store, "lk:{test/worker}:", &lock.Options{Clock: ticking})
			if err != nil {
				t.Fatal(err)
			}
			config, err := parseConfig([]string{fmt.Sprintf("--pod=worker-%d", i)}, func(string) string { return "" })
			if err != nil {
				t.Fatal(err)
			}
			w := newWorker(client, config, slog.New(slog.NewJSONHandler(&output, nil)).With("pod", config.pod))
			w.clock = fromOne{ticking}
			workers.Go(func() {
				w.run(ctx)
				if err := client.Close(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("a lock was left: %v", err)
				}
			})
		}
		workers.Wait()

		history := sections.NewHistory()
		for line := range bytes.Lines(output.bytes.Bytes()) {
			record, err := sections.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			history.Add(record)
		}
		report := history.Check()
		if report.Pods != 3 || report.Sections < 100 || len(report.Overlaps)+len(report.Regressions)+len(report.Malformed)+report.Lost > 0 {
			t.Errorf("report: %+v", report)
		}
		if open := history.Holding(); len(open) > 0 {
			t.Errorf("sections without an end: %v", open)
		}
	})
}

// fromOne shifts the clock, so that no record has the time 0, which means "no time".
type fromOne struct{ clock.Clock }

func (f fromOne) Now() clock.Instant { return f.Clock.Now().Add(time.Second) }

type safeBuffer struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.Write(p)
}
