// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/lockstead/lockstead/test/bench/internal/lockers"
	"github.com/lockstead/lockstead/test/bench/internal/monotonic"
	"github.com/lockstead/lockstead/test/bench/internal/result"
	"github.com/lockstead/lockstead/test/bench/internal/stats"
)

const micro = float64(time.Microsecond)

const (
	whyUncontended = "the round trips are as many as those of the others. A grant does more in the server: it looks at the epoch, counts the fencing token, writes the " +
		"record and keeps the list of held keys (column server). In the client each request runs in a goroutine of its own, so that a caller whose context ends returns at " +
		"once although go-redis does not hear of it while it reads"
	whyAllocations = "two contexts and a goroutine for each of both requests, the words of the command with up to four keys, and the timer and the context of the " +
		"handle; go-redis alone makes 24 for the raw pair"
)

// redisUncontended is a lock that nobody else wants.
func redisUncontended(ctx context.Context, e Env) ([]result.Measure, error) {
	servers, err := e.Rig.Redis()
	if err != nil {
		return nil, err
	}
	// It has but one subject without a wait: the pause between two tries does not matter.
	subjects, closeAll, err := open(ctx, lockers.OnRedis(), servers, "bsm/redislock (1 ms)")
	if err != nil {
		return nil, err
	}
	defer closeAll()
	var measures []result.Measure
	for _, goroutines := range []int{1, 16} {
		pairs := e.pick(800, 50)
		series, err := interleave(ctx, e.pick(40, 2), subjects, func(ctx context.Context, o opened, _ int) (values, error) {
			before, err := e.Rig.Work(o.Requests)
			if err != nil {
				return nil, err
			}
			v, err := pairsOf(ctx, o, goroutines, pairs/goroutines+1)
			if err != nil {
				return nil, err
			}
			after, err := e.Rig.Work(o.Requests)
			if err != nil {
				return nil, err
			}
			work := after.Since(before)
			v["requests"], v["server"] = work.Requests/v["pairs"], work.Time/v["pairs"]
			delete(v, "pairs")
			return v, nil
		})
		if err != nil {
			return nil, err
		}
		m := result.Measure{
			ID:    fmt.Sprintf("redis-uncontended-%d", goroutines),
			Title: fmt.Sprintf("Redis: acquire and release, uncontended, %d goroutines", goroutines),
			Text: "Each goroutine takes a key of its own and gives it back, over and over. Raw is `SET NX PX` and a script that compares and deletes. " +
				"Every subject has a pool of 64 connections. Server is how long the server was busy with a pair, by its own statistics.",
			Baseline: lockers.RawRedis,
			Metrics:  []result.Metric{{Name: "p50", Unit: "µs"}, {Name: "p99", Unit: "µs"}, {Name: "allocations"}, {Name: "requests"}, {Name: "server", Unit: "µs"}},
			Series:   series,
			Targets: []result.Target{
				{Subject: lockers.Lockstead, Metric: "p50", Than: lockers.RawRedis, Limit: 1.10, Why: whyUncontended},
				{Subject: lockers.Lockstead, Metric: "p99", Than: lockers.RawRedis, Limit: 1.10, Why: whyUncontended},
				{Subject: lockers.Lockstead, Metric: "p50", Than: result.Peers, Limit: 1, Why: whyUncontended},
				{Subject: lockers.Lockstead, Metric: "p99", Than: result.Peers, Limit: 1, Why: whyUncontended},
			},
		}
		if goroutines == 1 {
			m.Title = "Redis: acquire and release, uncontended, 1 goroutine"
			m.Targets = append(m.Targets, result.Target{Subject: lockers.Lockstead, Metric: "allocations", Limit: 10, Why: whyAllocations})
		}
		measures = append(measures, m)
	}
	return measures, nil
}

// pairsOf lets goroutines acquire and release keys of their own, and gives the time and the allocations of a pair.
func pairsOf(ctx context.Context, o opened, goroutines, pairs int) (values, error) {
	// One pair beforehand: connections and scripts are there.
	took := make([][]float64, goroutines)
	failed := make(failures, goroutines)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for g := range goroutines {
		took[g] = make([]float64, 0, pairs)
		key := fmt.Sprintf("uncontended-%d", g)
		ready.Add(1)
		done.Go(func() {
			err := pair(ctx, o, key)
			ready.Done()
			<-start
			for range pairs {
				if err != nil {
					break
				}
				began := monotonic.Now()
				err = pair(ctx, o, key)
				took[g] = append(took[g], float64(monotonic.Now()-began)/micro)
			}
			failed <- err
		})
	}
	ready.Wait()
	runtime.GC() // One subject's garbage is not to be collected in the time of another.
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	close(start)
	done.Wait()
	runtime.ReadMemStats(&after)
	if err := failed.join(); err != nil {
		return nil, err
	}
	var all []float64
	for _, t := range took {
		all = append(all, t...)
	}
	n := float64(len(all))
	return values{
		"p50": stats.Median(all), "p99": stats.Quantile(all, 0.99), "allocations": float64(after.Mallocs-before.Mallocs) / n, "pairs": n + float64(goroutines),
	}, nil
}

func pair(ctx context.Context, o opened, key string) error {
	release, err := o.Acquire(ctx, key, 0)
	if err != nil {
		return err
	}
	return release(ctx)
}
