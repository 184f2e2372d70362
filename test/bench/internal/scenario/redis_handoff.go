// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/test/bench/internal/lockers"
	"github.com/lockstead/lockstead/test/bench/internal/result"
	"github.com/lockstead/lockstead/test/bench/internal/stats"
	"github.com/lockstead/lockstead/test/bench/internal/worker"
)

// redisHandoff is a lock that goes from one process to another that waits for it, from the call of the release to the return of the acquire.
func redisHandoff(ctx context.Context, e Env) ([]result.Measure, error) {
	servers, err := e.Rig.Redis()
	if err != nil {
		return nil, err
	}
	var subjects []opened
	for _, s := range lockers.OnRedis() {
		if s.Name != lockers.RawRedis {
			subjects = append(subjects, opened{Subject: s})
		}
	}
	series, err := interleave(ctx, e.pick(5, 1), subjects, func(ctx context.Context, o opened, _ int) (values, error) {
		return handoffs(ctx, o.Name, servers, e.pick(25, 2))
	})
	if err != nil {
		return nil, err
	}
	return []result.Measure{{
		ID: "redis-handoff", Title: "Redis: hand-off between two processes",
		Text:    "One process holds the key and another waits for it; the time is from before the release to after the acquire. The raw protocol has no way to wait.",
		Metrics: []result.Metric{{Name: "p50", Unit: "ms"}, {Name: "p99", Unit: "ms"}},
		Series:  series,
		Targets: []result.Target{
			{Subject: lockers.Lockstead, Metric: "p50", Limit: 1},
			{Subject: lockers.Lockstead, Metric: "p99", Limit: 10},
			{Subject: lockers.Lockstead, Metric: "p50", Than: result.Peers, Limit: 1},
		},
	}}, nil
}

// handoffs passes a lock to and fro between two processes.
func handoffs(ctx context.Context, subject string, servers lockers.Servers, times int) (_ values, err error) {
	var pair [2]*worker.Worker
	for i := range pair {
		if pair[i], err = worker.Start(ctx, subject, servers); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, pair[i].Close()) }()
	}
	const key, wait = "handoff", time.Minute
	if _, err := pair[0].Lock(key, wait); err != nil {
		return nil, err
	}
	var took []float64
	for i := range times {
		from, to := pair[i%2], pair[1-i%2]
		type grant struct {
			at  time.Duration
			err error
		}
		granted := make(chan grant, 1)
		go func() {
			at, err := to.Lock(key, wait)
			granted <- grant{at, err}
		}()
		// Long enough for the other one to wait, and at any place between two of its tries.
		held := clock.Boot().NewTimer(30*time.Millisecond + rand.N(100*time.Millisecond))
		<-held.C()
		released, err := from.Unlock()
		g := <-granted
		if err := errors.Join(err, g.err); err != nil {
			return nil, err
		}
		took = append(took, float64(g.at-released)/float64(time.Millisecond))
	}
	if _, err := pair[times%2].Unlock(); err != nil {
		return nil, err
	}
	return values{"p50": stats.Median(took), "p99": stats.Quantile(took, 0.99)}, nil
}
