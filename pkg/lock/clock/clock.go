// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clock is the time that lock decisions are made with: a clock that only goes forward, keeps running while the machine
// sleeps, and means nothing outside the process.
package clock

import "time"

// Instant is a point on a Clock, as the time since an origin that is the same for the life of the process.
type Instant time.Duration

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from u to i.
func (i Instant) Sub(u Instant) time.Duration { return time.Duration(i - u) }

// Clock tells the time and runs timers. It is safe for concurrent use.
type Clock interface {
	// Now is the current instant.
	Now() Instant
	// AfterFunc calls f in its own goroutine once d has passed; it may be late, never early.
	AfterFunc(d time.Duration, f func()) Timer
	// NewTimer sends once on its channel when d has passed.
	NewTimer(d time.Duration) Timer
}

// Timer is what a Clock starts.
type Timer interface {
	// C is nil for a timer made by AfterFunc.
	C() <-chan time.Time
	// Stop ends the timer; false if it had already fired or been stopped.
	Stop() bool
}

// Monotonic is Go's monotonic clock. It stops while a Linux machine sleeps, so production code uses Boot; it follows the fake
// time of testing/synctest, so tests of timer rules use it.
func Monotonic() Clock { return monotonic{origin: time.Now()} }

type monotonic struct{ origin time.Time }

func (m monotonic) Now() Instant { return Instant(time.Since(m.origin)) }

func (monotonic) AfterFunc(d time.Duration, f func()) Timer { return goTimer{time.AfterFunc(d, f)} }

func (monotonic) NewTimer(d time.Duration) Timer { return goTimer{time.NewTimer(d)} }

type goTimer struct{ t *time.Timer }

func (g goTimer) C() <-chan time.Time { return g.t.C }
func (g goTimer) Stop() bool          { return g.t.Stop() }
