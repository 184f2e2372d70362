// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenario has what is measured, a file for each.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockstead/lockstead/test/bench/internal/lockers"
	"github.com/lockstead/lockstead/test/bench/internal/result"
	"github.com/lockstead/lockstead/test/bench/internal/rig"
)

// Scenario measures one thing, or one curve.
type Scenario struct {
	// Name is what the program's flag -only selects by.
	Name string
	// Run measures.
	Run func(ctx context.Context, e Env) ([]result.Measure, error)
}

// All are all scenarios in the order of the page.
func All() []Scenario {
	return []Scenario{
		{"redis-uncontended", redisUncontended},
		{"redis-failed-wait", redisFailedWait},
		{"redis-throughput", redisThroughput},
		{"redis-handoff", redisHandoff},
	}
}

// Env is what a scenario works with.
type Env struct {
	Rig *rig.Rig
	// Quick asks for a run that only shows that it works.
	Quick bool
}

// pick is the first number in a full run, and the second in a quick one.
func (e Env) pick(full, quick int) int {
	if e.Quick {
		return quick
	}
	return full
}

// opened is a subject that is connected.
type opened struct {
	lockers.Subject
	lockers.Locker
}

// open connects the subjects, without those that are named.
func open(ctx context.Context, subjects []lockers.Subject, servers lockers.Servers, without ...string) (all []opened, closeAll func(), err error) {
	closeAll = func() {
		for _, o := range all {
			o.Close()
		}
	}
	for _, s := range subjects {
		if slices.Contains(without, s.Name) {
			continue
		}
		l, err := s.Open(ctx, servers)
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		all = append(all, opened{s, l})
	}
	return all, closeAll, nil
}

// values are what one round measured of one subject, by metric.
type values = map[string]float64

// interleave runs all subjects once in every round, in an order that moves on by one each time, so that what disturbs the machine for a
// while disturbs all of them.
func interleave(ctx context.Context, rounds int, subjects []opened, run func(ctx context.Context, o opened, round int) (values, error)) ([]result.Series, error) {
	series := make([]result.Series, len(subjects))
	for i, o := range subjects {
		series[i] = result.Series{Subject: o.Name, Peer: o.Peer}
	}
	for round := range rounds {
		for i := range subjects {
			i = (i + round) % len(subjects)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			v, err := run(ctx, subjects[i], round)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", subjects[i].Name, round+1, err)
			}
			series[i].Rounds = append(series[i].Rounds, v)
		}
	}
	return series, nil
}

// failures collects the errors of goroutines.
type failures chan error

func (f failures) join() error {
	close(f)
	var all error
	for err := range f {
		all = errors.Join(all, err)
	}
	return all
}
