// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lockstead/lockstead/test/bench/internal/lockers"
	"github.com/lockstead/lockstead/test/bench/internal/monotonic"
	"github.com/lockstead/lockstead/test/bench/internal/result"
)

const whyThroughput = "as for the uncontended pair; rueidislock is ahead of the raw pair too, since its client sends the requests of all goroutines over one connection, in " +
	"few system calls, where go-redis has a connection for each request"

// redisThroughput is many keys, and as many goroutines as may be.
func redisThroughput(ctx context.Context, e Env) ([]result.Measure, error) {
	servers, err := e.Rig.Redis()
	if err != nil {
		return nil, err
	}
	subjects, closeAll, err := open(ctx, lockers.OnRedis(), servers, "bsm/redislock (1 ms)")
	if err != nil {
		return nil, err
	}
	defer closeAll()
	const goroutines = 64
	keys := e.pick(10_000, 200)
	series, err := interleave(ctx, e.pick(5, 1), subjects, func(ctx context.Context, o opened, _ int) (values, error) {
		runtime.GC()
		var group sync.WaitGroup
		failed := make(failures, goroutines)
		var next atomic.Int64
		began := monotonic.Now()
		for range goroutines {
			group.Go(func() {
				var err error
				for err == nil {
					key := next.Add(1)
					if key > int64(keys) {
						break
					}
					err = pair(ctx, o, fmt.Sprintf("throughput-%d", key))
				}
				failed <- err
			})
		}
		group.Wait()
		took := monotonic.Now() - began
		return values{"rate": float64(keys) / took.Seconds()}, failed.join()
	})
	if err != nil {
		return nil, err
	}
	return []result.Measure{{
		ID: "redis-throughput", Title: fmt.Sprintf("Redis: throughput over %d keys, %d goroutines", keys, goroutines),
		Text:     "Each key is taken and given back once; client and server share the machine's cores, so what a subject computes itself counts as much as what the server does for it.",
		Baseline: lockers.RawRedis,
		Metrics:  []result.Metric{{Name: "rate", Unit: "pairs/s"}},
		Series:   series,
		Targets:  []result.Target{{Subject: lockers.Lockstead, Metric: "rate", Than: result.Peers, Limit: 1, AtLeast: true, Why: whyThroughput}},
	}}, nil
}
