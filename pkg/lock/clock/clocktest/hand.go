// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clocktest has clocks for tests. Tests of timers use testing/synctest with clock.Monotonic instead.
package clocktest

import (
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// Hand is a clock.Clock that is moved by hand, from 0. Its timers never fire, so that nothing but a look at the time finds that it has passed. It is
// safe for concurrent use.
type Hand struct {
	mu  sync.Mutex
	now clock.Instant
}

// Now implements clock.Clock.
func (c *Hand) Now() clock.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward by d.
func (c *Hand) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// AfterFunc implements clock.Clock.
func (*Hand) AfterFunc(time.Duration, func()) clock.Timer { return never{} }

// NewTimer implements clock.Clock.
func (*Hand) NewTimer(time.Duration) clock.Timer { return never{} }

type never struct{}

func (never) C() <-chan time.Time { return nil }
func (never) Stop() bool          { return true }
