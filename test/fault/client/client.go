// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client is an application of the lock library that works for a fault run: it takes locks, reads and writes what they guard, renews, releases or forgets
// them, overslept and late ones included, and writes down what it asks, what it is answered and what it believes.
package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/test/fault/history"
	"github.com/lockstead/lockstead/test/fault/resource"
)

// Config is what a client process is told.
type Config struct {
	Name   string        `json:"name"`
	Store  Store         `json:"store"`
	Prefix string        `json:"prefix"`
	Keys   []string      `json:"keys"`
	TTL    time.Duration `json:"ttl"`
	// Work is the longest that a lock is held by a worker that does not oversleep.
	Work time.Duration `json:"work"`
	// Workers is the number of goroutines that take locks.
	Workers int `json:"workers"`
	// Resource is the socket of what the locks guard, History the file to write.
	Resource string `json:"resource"`
	History  string `json:"history"`
	Seed     uint64 `json:"seed"`
	// Rate is the speed of the process's clock, 1 for a right one.
	Rate float64 `json:"rate"`
	// Bug is planted into the driver; only builds with the tag "planted" have any.
	Bug string `json:"bug,omitempty"`
	// Patient says that every worker waits for its turn, and rests after it.
	Patient bool `json:"patient,omitempty"`
	// Healthy says that nothing is disturbed, so that nobody oversleeps.
	Healthy bool `json:"healthy,omitempty"`
}

// Run works until ctx ends, then finishes in good order.
func Run(ctx context.Context, c Config) error {
	before := runtime.NumGoroutine()
	file, err := os.OpenFile(c.History, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	out := history.NewWriter(file)
	clk := rated(c.Rate)
	d, end, err := c.open(ctx, clk)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	err = RunOn(ctx, c, d, out, clk)
	err = errors.Join(err, d.Close())
	end()
	out.Write(history.Record{Kind: history.Close, Leaked: leaked(before, clk)})
	return errors.Join(err, out.Err())
}

// open tries until the store answers: a client may be started while its store is down.
func (c Config) open(ctx context.Context, clk clock.Clock) (driver.Driver, func(), error) {
	for {
		d, end, err := c.Store.open(ctx, clk)
		if err == nil {
			return d, end, nil
		}
		end()
		if !pause(ctx, clk, 100*time.Millisecond) {
			return nil, nil, err
		}
	}
}

// RunOn works on a driver that is open. The caller closes it.
func RunOn(ctx context.Context, c Config, d driver.Driver, out *history.Writer, clk clock.Clock) error {
	store := record(plant(c.Bug, c.Name, d), out)
	locks, err := lock.New(store, c.Prefix, &lock.Options{
		MaxTTL: max(c.TTL, time.Second), DefaultTTL: c.TTL, PollInterval: max(5*time.Second, 2*c.TTL), ReleaseTimeout: max(c.TTL, time.Second), Owner: c.Name, Clock: clk,
	})
	if err != nil {
		return err
	}
	guarded, err := resource.Dial(c.Resource)
	if err != nil {
		return err
	}
	defer func() { _ = guarded.Close() }()
	var workers sync.WaitGroup
	for i := range c.Workers {
		w := &worker{
			Config: c, locks: locks, store: store, guarded: guarded, out: out, clock: clk,
			random: rand.New(rand.NewPCG(c.Seed, uint64(i))),
		}
		workers.Go(func() {
			for ctx.Err() == nil {
				w.turn(ctx)
			}
		})
	}
	workers.Wait()
	closing, cancel := context.WithTimeout(context.Background(), 2*c.TTL+5*time.Second)
	defer cancel()
	// Locks that were left to their TTL on purpose may still be held, and say so.
	_ = locks.Close(closing)
	return nil
}

// leaked counts the goroutines that stay.
func leaked(before int, clk clock.Clock) int {
	const tries = 100
	for range tries {
		if runtime.NumGoroutine() <= before {
			return 0
		}
		pause(context.Background(), clk, 20*time.Millisecond)
	}
	return runtime.NumGoroutine() - before
}

// pause reports false when ctx ended first.
func pause(ctx context.Context, clk clock.Clock, d time.Duration) bool {
	timer := clk.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// rated is the clock of a machine whose time runs at another speed.
func rated(rate float64) clock.Clock {
	if rate == 0 || rate == 1 {
		return clock.Boot()
	}
	return ratedClock{clock.Boot(), rate}
}

type ratedClock struct {
	clock.Clock
	rate float64
}

func (r ratedClock) Now() clock.Instant { return clock.Instant(float64(r.Clock.Now()) * r.rate) }

func (r ratedClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return r.Clock.AfterFunc(time.Duration(float64(d)/r.rate), f)
}

func (r ratedClock) NewTimer(d time.Duration) clock.Timer {
	return r.Clock.NewTimer(time.Duration(float64(d) / r.rate))
}

// String names a client in messages.
func (c Config) String() string { return fmt.Sprintf("%s (seed %d)", c.Name, c.Seed) }
