// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock

import (
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// owners remembers this process's acquisitions: the version that each one wrote last, and whom to tell when somebody else changes it. An
// acquisition is dropped on release, on loss, and once every write of it must have run out, so the memory is bounded by the
// acquisitions that are alive.
type owners struct {
	mu     sync.Mutex
	byID   map[string]*owned
	byName map[string]map[*owned]struct{}
	// sweepAt is the size at which those that ran out are looked for: twice what the last sweep left, so that a sweep costs
	// each acquisition a constant.
	sweepAt int
}

const leastSweep = 64

type owned struct {
	id, name, prefix string
	// lease is the last version known to be ours; nil until the acquiring write was answered.
	lease    *coordinationv1.Lease
	sequence uint64
	// floor is the least duration that a write of ours may have recorded since the last answer.
	floor time.Duration
	// until is when the time that was granted for certain is over, keep when no write of ours can still be alive.
	until, keep clock.Instant
	// onLost is nil once it was called or nobody wants to know any more.
	onLost func(error)
	// early is what the watch told before the acquiring write was answered.
	early *sighting
}

// sighting is what a watch or list says about the Lease of one name at a version.
type sighting struct {
	version string
	// lease is nil when there is none.
	lease *coordinationv1.Lease
}

func (o *owners) init() {
	o.byID = map[string]*owned{}
	o.byName = map[string]map[*owned]struct{}{}
	o.sweepAt = leastSweep
}

// begin remembers an acquisition whose acquiring write is about to be sent.
func (o *owners) begin(req driver.AcquireRequest, name string, now clock.Instant) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.byID) >= o.sweepAt {
		for _, own := range o.byID {
			if now >= own.keep {
				o.drop(own)
			}
		}
		o.sweepAt = max(leastSweep, 2*len(o.byID))
	}
	own := &owned{
		id: req.ID, name: name, prefix: req.Key.Prefix,
		floor: req.TTL, until: now.Add(req.TTL), keep: now.Add(req.TTL), onLost: req.OnLost,
	}
	if old := o.byID[req.ID]; old != nil {
		o.drop(old)
	}
	o.byID[req.ID] = own
	if o.byName[name] == nil {
		o.byName[name] = map[*owned]struct{}{}
	}
	o.byName[name][own] = struct{}{}
}

// granted records the answer to the acquiring write. What the watch had told before is judged now: the result tells whom to tell, as
// for sight.
func (o *owners) granted(id string, lease *coordinationv1.Lease, sequence uint64) []loss {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.byID[id]
	if own == nil {
		return nil
	}
	own.lease, own.sequence = lease, sequence
	if own.early == nil {
		return nil
	}
	early := *own.early
	own.early = nil
	if cause := own.judge(early); cause != nil {
		return o.lose(own, cause)
	}
	return nil
}

// unanswered keeps an acquisition whose acquiring write may have been applied, for a release by its id.
func (o *owners) unanswered(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if own := o.byID[id]; own != nil {
		own.onLost = nil
	}
}

func (o *owners) forget(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if own := o.byID[id]; own != nil {
		o.drop(own)
	}
}

// renewing returns what is known about an acquisition that is about to be renewed for ttl.
func (o *owners) renewing(id string, ttl time.Duration, now clock.Instant) (last *coordinationv1.Lease, sequence uint64, ranOut bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.byID[id]
	if own == nil {
		return nil, 0, false
	}
	if now >= own.until {
		return nil, 0, true
	}
	own.floor = min(own.floor, ttl)
	own.keep = max(own.keep, now.Add(ttl))
	return own.lease, own.sequence, false
}

// renewed records the answer to a renewal that was sent at the given instant.
func (o *owners) renewed(id string, lease *coordinationv1.Lease, ttl time.Duration, sent clock.Instant) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if own := o.byID[id]; own != nil {
		own.adopt(lease)
		own.floor, own.until = ttl, sent.Add(ttl)
	}
}

// releasing returns what is known about an acquisition that is about to be released, and stops its loss from being told.
func (o *owners) releasing(id string, now clock.Instant) (last *coordinationv1.Lease, ranOut bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.byID[id]
	if own == nil {
		return nil, false
	}
	own.onLost = nil
	return own.lease, own.lease != nil && now >= own.until
}

// loss is a holder to be told, after the lock of owners was let go.
type loss struct {
	tell  func(error)
	cause error
}

func tell(losses []loss) {
	for _, l := range losses {
		l.tell(l.cause)
	}
}

// sight judges what the watch says about a name.
func (o *owners) sight(name string, s sighting) []loss {
	o.mu.Lock()
	defer o.mu.Unlock()
	var losses []loss
	for own := range o.byName[name] {
		if own.lease == nil {
			own.early = &s
			continue
		}
		if cause := own.judge(s); cause != nil {
			losses = append(losses, o.lose(own, cause)...)
		}
	}
	return losses
}

// sightAbsent judges a complete list: every own name of the prefix that is not in it has no Lease at the list's version.
func (o *owners) sightAbsent(prefix, version string, present map[string]bool) []loss {
	o.mu.Lock()
	defer o.mu.Unlock()
	var losses []loss
	for _, own := range o.byID {
		if own.prefix != prefix || present[own.name] {
			continue
		}
		if own.lease == nil {
			own.early = &sighting{version: version}
		} else if cause := own.judge(sighting{version: version}); cause != nil {
			losses = append(losses, o.lose(own, cause)...)
		}
	}
	return losses
}

func (o *owners) lose(own *owned, cause error) []loss {
	o.drop(own)
	if own.onLost == nil {
		return nil
	}
	l := loss{tell: own.onLost, cause: cause}
	own.onLost = nil
	return []loss{l}
}

func (o *owners) drop(own *owned) {
	delete(o.byID, own.id)
	delete(o.byName[own.name], own)
	if len(o.byName[own.name]) == 0 {
		delete(o.byName, own.name)
	}
}

// judge tells why a sighting means that the acquisition is over, nil if it does not. A newer version that still carries our id, a stranger's
// label or annotation, is adopted.
func (own *owned) judge(s sighting) error {
	if !newer(s.version, own.lease.ResourceVersion) {
		return nil
	}
	if s.lease == nil {
		return notHolder("Lease %s/%s was deleted, or lost its labels", own.lease.Namespace, own.name)
	}
	if err := stillOurs(s.lease, own.lease, own.id); err != nil {
		return err
	}
	if seconds := s.lease.Spec.LeaseDurationSeconds; time.Duration(*seconds)*time.Second < own.floor {
		// Others may now take the Lease over before our deadline.
		return notHolder("Lease %s/%s was edited: spec.leaseDurationSeconds is %d, less than the %s that were granted",
			own.lease.Namespace, own.name, *seconds, own.floor)
	}
	own.adopt(s.lease)
	return nil
}

// adopt moves to a newer version that is ours.
func (own *owned) adopt(lease *coordinationv1.Lease) {
	if own.lease == nil || newer(lease.ResourceVersion, own.lease.ResourceVersion) {
		own.lease = lease
	}
}

// newer is false for versions that are no numbers: no decision is taken from their order.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// stillOurs is the check before any write on a version that was read again: the same object, a lock, and our acquisition.
func stillOurs(now, before *coordinationv1.Lease, id string) error {
	if before != nil && now.UID != before.UID {
		return notHolder("Lease %s/%s was deleted and made anew by somebody", now.Namespace, now.Name)
	}
	record, err := leaseformat.Parse(now)
	if err != nil {
		return notHolder("%w", err)
	}
	if record.ID != id {
		return notHolder("%s holds Lease %s/%s now", holderName(record), now.Namespace, now.Name)
	}
	return nil
}

func holderName(r leaseformat.Record) string {
	if r.Owner != "" {
		return fmt.Sprintf("%q", r.Owner)
	}
	return "another acquisition"
}
