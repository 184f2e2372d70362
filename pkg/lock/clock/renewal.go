// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package clock

import "time"

// MinTTL is the shortest TTL that Deadline leaves enough of for work and renewals.
const MinTTL = 100 * time.Millisecond

// RenewalPause is the time from one renewal to the next: a third of the TTL, so that two may fail; a twelfth after a failure. Whoever keeps many at once
// adds a jitter.
func RenewalPause(ttl time.Duration, failed bool) time.Duration {
	if failed {
		return ttl / 12
	}
	return ttl / 3
}

// AttemptLimit is the time for the answer to a renewal: a quarter of the TTL leaves room for another attempt before the deadline. It is half of MinTTL
// at least, so below a TTL of 110 ms one that hangs leaves no room.
func AttemptLimit(ttl time.Duration) time.Duration { return max(ttl/4, MinTTL/2) }
