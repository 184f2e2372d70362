// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"time"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// memory is what the status of a RedisInstance tells of the server's past.
type memory struct {
	epoch uint64
	runID string
	// durable: at the last look the server would have kept every write that it acknowledged. What its data say of that may be older than that look.
	durable         bool
	quarantineUntil time.Time // zero is none
	longestTTL      time.Duration
	// remaining is how long this process has still to wait until a quarantine is over.
	remaining time.Duration
}

// quarantineLength is how long nothing is granted after a loss.
func (m memory) quarantineLength() time.Duration { return m.longestTTL + quarantineMargin }

// found is what the server has now.
type found struct {
	// epoch is that of the server's own record; zero is none.
	epoch uint64
	// highest is the greatest epoch of any record.
	highest uint64
	// armed is the epoch that the server's memory has; zero after a restart or a reload of the library.
	armed uint64
	runID string
	// selfArm: the server keeps every write that it acknowledged, and did when its record was written.
	selfArm bool
	// bound: LockNamespaces are bound to the server.
	bound bool
	// incomplete: a LockNamespace that was programmed has no record.
	incomplete bool
}

// plan is what to do with the epoch.
type plan struct {
	epoch uint64
	// grant: write and arm the records. Otherwise no lock is granted before quarantineUntil.
	grant bool
	// quarantineUntil is when the quarantine is expected to end. It is for people: what ends it is the clock of the process.
	quarantineUntil time.Time
	// lost says what was just found, if the server may have lost data.
	lost string
}

// decide compares what the server has with what is remembered of it. It errs on the side of a quarantine. The wall clock, now, makes epochs
// grow and is shown to people; no quarantine is shortened by it.
func decide(m memory, f found, now time.Time) plan {
	lost := func(why string) plan {
		return plan{
			epoch:           redisproto.NextEpoch(max(f.epoch, f.highest), m.epoch, now.Unix()),
			quarantineUntil: wholeSecond(now.Add(m.quarantineLength())), lost: why,
		}
	}
	sameRun := m.runID != "" && m.runID == f.runID
	kept := sameRun || (f.selfArm && (m.durable || m.epoch == 0)) || (f.armed > 0 && f.armed == f.epoch)
	switch {
	case m.epoch == 0:
		if f.bound && (f.epoch == 0 || f.incomplete) {
			return lost("the server has no epoch record, and the RedisInstance has lost its status")
		}
		if f.epoch > 0 && !kept {
			return lost("the server was used before, and may have restarted since")
		}
		return plan{epoch: redisproto.NextEpoch(max(f.epoch, f.highest), 0, now.Unix()), grant: true}
	case !m.quarantineUntil.IsZero():
		released := f.epoch >= m.epoch
		if !sameRun && (!released || !kept) {
			return lost("the server restarted during the quarantine")
		}
		// Also if it was released: another RedisInstance of the same server may have waited for a shorter TTL.
		if m.remaining > 0 {
			return plan{epoch: m.epoch, quarantineUntil: expected(m.quarantineUntil, now.Add(m.remaining))}
		}
		return plan{epoch: max(m.epoch, f.epoch, f.highest), grant: true}
	case f.epoch == 0:
		return lost("the server has no epoch record any more")
	case f.epoch < m.epoch:
		return lost("the server has an older epoch record: its data were restored")
	case f.incomplete:
		return lost("the epoch record of a LockNamespace is gone")
	case !kept:
		return lost("the server restarted, and does not keep every acknowledged write")
	default:
		return plan{epoch: max(m.epoch, f.epoch, f.highest), grant: true}
	}
}

// wholeSecond is the first whole second, which is what a status keeps, that is not before t.
func wholeSecond(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

// expected is the time at which a quarantine ends, as it was told or, when that has become wrong, as it is known now.
func expected(told, known time.Time) time.Time {
	const tolerance = 5 * time.Second
	if off := told.Sub(known); off.Abs() <= tolerance {
		return told
	}
	return wholeSecond(known)
}
