// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package clock

import "time"

// Deadline is the instant from which a holder does not count on a TTL any more: from before the request was sent, less 1 % for clocks of two
// machines that run at different rates, less a guard. The store counts its TTL from when it applied the request, which is later, so the
// holder ends before the store can grant again. The source of the rule is Gray and Cheriton, "Leases", SOSP 1989: the
// holder counts from when it asked, the grantor from when it granted.
func Deadline(sent Instant, ttl time.Duration) Instant {
	return sent.Add(ttl - ttl/100 - guard(ttl))
}

// guard is taken off the TTL for timers and schedulers that are late: 50 ms, but at most a tenth of a short TTL and at least a
// hundredth of a long one.
func guard(ttl time.Duration) time.Duration {
	const usual = 50 * time.Millisecond
	return max(ttl/100, min(usual, ttl/10))
}
