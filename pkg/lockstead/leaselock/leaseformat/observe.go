// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaseformat

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// Observations are the moments at which one process received the versions of Leases. The zero value is ready. It is not safe for
// concurrent use.
//
// Whoever may act on them only from some moment on (a process that becomes leader) starts with a zero value then. Seeing the same
// version again changes nothing, so resynchronisations do not disturb them.
type Observations struct {
	seen map[types.UID]observation
}

type observation struct {
	version string
	since   clock.Instant
}

// See records that a version of a Lease was received at now, and returns how long that version must still stay the newest one that
// was received before the Lease counts as abandoned: zero means abandoned, the record's whole duration means first seen.
func (o *Observations) See(r Record, now clock.Instant) time.Duration {
	known, ok := o.seen[r.UID]
	// Any other version restarts the count, an apparently older one too: it may be an overtaken answer, which costs a
	// little patience, or a restored etcd, after which a count kept for the greater version would never end.
	if !ok || known.version != r.ResourceVersion {
		if o.seen == nil {
			o.seen = map[types.UID]observation{}
		}
		known = observation{version: r.ResourceVersion, since: now}
		o.seen[r.UID] = known
	}
	return max(0, r.Duration-now.Sub(known.since))
}

// Forget drops what is known about a Lease that is gone.
func (o *Observations) Forget(uid types.UID) { delete(o.seen, uid) }

// Keep drops every Lease for which keep is false.
func (o *Observations) Keep(keep func(types.UID) bool) {
	for uid := range o.seen {
		if !keep(uid) {
			delete(o.seen, uid)
		}
	}
}

// Len is the number of Leases that are known.
func (o *Observations) Len() int { return len(o.seen) }
