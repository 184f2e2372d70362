// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"fmt"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// MinTTL is the shortest TTL that any backend accepts. A shorter one leaves no time for the work after the margins for drift and
// scheduling are taken off.
const MinTTL = 100 * time.Millisecond

// resolveTTL turns the caller's TTL into one that the store keeps exactly: zero is the default, a fraction of the store's grain
// is rounded up, everything else that the store would change is refused.
func resolveTTL(ttl, defaultTTL, maxTTL time.Duration, limits driver.Limits) (time.Duration, error) {
	if ttl == 0 {
		ttl = defaultTTL
	}
	if ttl < MinTTL {
		return 0, &InvalidError{Argument: "ttl", Problem: fmt.Sprintf("%s is shorter than the minimum %s; give 0 for the default of %s", ttl, MinTTL, defaultTTL)}
	}
	if ttl > maxTTL {
		return 0, &InvalidError{Argument: "ttl", Problem: fmt.Sprintf("%s is longer than the maximum %s of this lock namespace (spec.ttl.max of the LockNamespace); take a shorter TTL and renew", ttl, maxTTL)}
	}
	if over := ttl % limits.Granularity; over != 0 {
		ttl += limits.Granularity - over
	}
	return max(ttl, limits.MinTTL), nil
}

// guard is taken off the TTL for timers and schedulers that are late: 50 ms, but at most a tenth of a short TTL and at least a
// hundredth of a long one.
func guard(ttl time.Duration) time.Duration {
	const usual = 50 * time.Millisecond
	return max(ttl/100, min(usual, ttl/10))
}

// deadline is the instant from which a handle is not valid: counted from before the request was sent, less 1 % for clocks of two
// machines that run at different rates, less the guard. The store counts its TTL from when it applied the request, which is later, so the
// handle ends before the store can grant the key again. The source of the rule is Gray and Cheriton, "Leases", SOSP 1989: the
// holder counts from when it asked, the grantor from when it granted.
func deadline(sent clock.Instant, ttl time.Duration) clock.Instant {
	return sent.Add(ttl - ttl/100 - guard(ttl))
}
