// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstead/lockstead/test/bench/internal/lockers"
	"github.com/lockstead/lockstead/test/bench/internal/monotonic"
	"github.com/lockstead/lockstead/test/bench/internal/result"
)

// redisFailedWait is a wait for a key that another holds all the while.
func redisFailedWait(ctx context.Context, e Env) ([]result.Measure, error) {
	servers, err := e.Rig.Redis()
	if err != nil {
		return nil, err
	}
	holders, closeHolders, err := open(ctx, lockers.OnRedis(), servers, lockers.RawRedis)
	if err != nil {
		return nil, err
	}
	defer closeHolders()
	waiters, closeWaiters, err := open(ctx, lockers.OnRedis(), servers, lockers.RawRedis)
	if err != nil {
		return nil, err
	}
	defer closeWaiters()
	holder := map[string]opened{}
	for _, h := range holders {
		holder[h.Name] = h
	}
	wait := time.Duration(e.pick(5000, 300)) * time.Millisecond
	series, err := interleave(ctx, e.pick(3, 1), waiters, func(ctx context.Context, o opened, _ int) (values, error) {
		release, err := holder[o.Name].Acquire(ctx, "failed-wait", 0)
		if err != nil {
			return nil, err
		}
		before, err := e.Rig.Work(o.Requests)
		if err != nil {
			return nil, err
		}
		began := monotonic.Now()
		if _, err := o.Acquire(ctx, "failed-wait", wait); !errors.Is(err, lockers.ErrBusy) {
			return nil, fmt.Errorf("the wait ended with %w, want that the key is held", err)
		}
		took := monotonic.Now() - began
		after, err := e.Rig.Work(o.Requests)
		if err != nil {
			return nil, err
		}
		return values{"requests": after.Since(before).Requests, "took": took.Seconds()}, release(ctx)
	})
	if err != nil {
		return nil, err
	}
	return []result.Measure{{
		ID: "redis-failed-wait", Title: fmt.Sprintf("Redis: a wait of %s that fails", wait),
		Text:    "Another client holds the key all the while. Requests are those that the server counted.",
		Metrics: []result.Metric{{Name: "requests"}, {Name: "took", Unit: "s"}},
		Series:  series,
		Targets: []result.Target{
			{Subject: lockers.Lockstead, Metric: "requests", Limit: 12},
			{Subject: lockers.Lockstead, Metric: "requests", Than: result.Peers, Limit: 1},
		},
	}}, nil
}
