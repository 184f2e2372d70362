// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// MinTTL is the shortest TTL of a claim: a shorter one leaves no time for the work after the margins are taken off.
const MinTTL = clock.MinTTL

// MaxTTL is the longest TTL of a claim. Work that takes longer extends its claim: a row whose worker was killed waits for the rest
// of the TTL.
const MaxTTL = 24 * time.Hour

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return &InvalidError{Argument: "ttl", Problem: fmt.Sprintf("%s is not between %s and %s", ttl, MinTTL, MaxTTL)}
	}
	return nil
}

// micros is a duration as the server takes it, rounded up to its grain.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

// Backoff is the pauses after failed attempts: Base, doubled with each attempt, up to Max. The zero value is 1 s up to 1 h in a worker.
type Backoff struct {
	// Base is the pause after the first attempt. Defaults to 1 s.
	Base time.Duration
	// Max is the longest pause. Defaults to 1 h, or to Base where that is longer.
	Max time.Duration
}

// resolve fills in the defaults and refuses what is no sequence of pauses.
func (b Backoff) resolve() (Backoff, error) {
	if b.Base == 0 {
		b.Base = time.Second
	}
	if b.Max == 0 {
		b.Max = max(time.Hour, b.Base)
	}
	if b.Base < 0 || b.Max < b.Base {
		return b, &InvalidError{Argument: "Backoff", Problem: fmt.Sprintf("Base %s and Max %s: Base is positive and at most Max", b.Base, b.Max)}
	}
	return b, nil
}

// After is the pause after attempt, which counts from 1. random, from 0 up to 1, takes off up to a fifth, so that rows that failed together
// do not come back together. The pause never exceeds Max.
func (b Backoff) After(attempt int, random float64) time.Duration {
	pause := b.Base
	for i := 1; i < attempt && pause < b.Max; i++ {
		if pause > b.Max/2 {
			pause = b.Max
			break
		}
		pause *= 2
	}
	pause = min(pause, b.Max)
	return pause - time.Duration(random*float64(pause/5))
}
