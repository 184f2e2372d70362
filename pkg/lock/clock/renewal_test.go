// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// From a TTL of 110 ms on: after a renewal that hangs for as long as an attempt may, another one is answered before the deadline.
func TestASecondRenewalFitsBeforeTheDeadline(t *testing.T) {
	for ttl := clock.MinTTL + 10*time.Millisecond; ttl <= 24*time.Hour; ttl += ttl/7 + 1 {
		first := clock.RenewalPause(ttl, false)
		second := first + clock.AttemptLimit(ttl) + clock.RenewalPause(ttl, true)
		if end := clock.Deadline(0, ttl); clock.Instant(second) >= end {
			t.Errorf("TTL %s: the second attempt begins at %s, the deadline is at %s", ttl, second, time.Duration(end))
		}
	}
}

func TestPausesAndLimits(t *testing.T) {
	for ttl, want := range map[time.Duration][3]time.Duration{
		time.Minute:            {20 * time.Second, 5 * time.Second, 15 * time.Second},
		240 * time.Millisecond: {80 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond},
		120 * time.Millisecond: {40 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond},
	} {
		got := [3]time.Duration{clock.RenewalPause(ttl, false), clock.RenewalPause(ttl, true), clock.AttemptLimit(ttl)}
		if got != want {
			t.Errorf("TTL %s: pause, pause after a failure and limit are %v, want %v", ttl, got, want)
		}
	}
}
