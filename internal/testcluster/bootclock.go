// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import "time"

// bootClock estimates the clock of the node, CLOCK_BOOTTIME, from the records that arrive: a record was made before it arrived, so each one
// gives a lower bound, and the greatest of them is the estimate. It is never ahead of the node, which makes "was alive at" a safe statement.
type bootClock struct {
	origin time.Time
	offset time.Duration
	known  bool
}

// observe takes the node's time of a record and the local time of its arrival.
func (c *bootClock) observe(boot time.Duration, arrived time.Time) {
	if !c.known {
		c.origin, c.offset, c.known = arrived, boot, true
		return
	}
	c.offset = max(c.offset, boot-arrived.Sub(c.origin))
}

// at gives the estimate for a local time.
func (c *bootClock) at(now time.Time) time.Duration { return now.Sub(c.origin) + c.offset }
