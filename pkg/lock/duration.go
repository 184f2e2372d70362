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
const MinTTL = clock.MinTTL

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
