// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package exclusive

import (
	"fmt"
	"time"
)

// Outcome is what came of a call of RunExclusive.
type Outcome string

// The outcomes. With the first three the error is nil.
const (
	// Ran: the job ran here and returned nil.
	Ran Outcome = "ran"
	// SkippedHeld: the job is running elsewhere, or its MinHold is not over.
	SkippedHeld Outcome = "skipped-held"
	// SkippedSlot: another call has run this slot, or is running it.
	SkippedSlot Outcome = "skipped-slot"
	// Failed: the job ran here and returned an error, which is returned.
	Failed Outcome = "failed"
	// Panicked: the job did not return. The panic goes on.
	Panicked Outcome = "panicked"
	// Lost: the job ran here, and the lock was lost before it returned, so another replica may have run it too. The error matches lock.ErrLost.
	Lost Outcome = "lost"
	// NotRun: the job did not run, because the store could not be asked or the caller's context ended. The error says which.
	NotRun Outcome = "not-run"
	// Refused: the job did not run, because of an argument or because the slot is too far from now. The error is a *lock.InvalidError or a
	// *SlotError.
	Refused Outcome = "refused"
)

// Outcomes are all that there are, for counters that are to begin at 0.
func Outcomes() []Outcome {
	return []Outcome{Ran, SkippedHeld, SkippedSlot, Failed, Panicked, Lost, NotRun, Refused}
}

// Began reports whether the job began here, whatever became of it.
func (o Outcome) Began() bool { return o == Ran || o == Failed || o == Panicked || o == Lost }

// Skipped reports whether the job was left to another replica.
func (o Outcome) Skipped() bool { return o == SkippedHeld || o == SkippedSlot }

// Event is a call of RunExclusive that has ended.
type Event struct {
	// Job is the job's name: a constant of the program, so it may be a label of a metric.
	Job string
	// Outcome is what RunExclusive returned.
	Outcome Outcome
	// Slot is that of the options, zero if there was none.
	Slot time.Time
	// Took is the time from the call to its end.
	Took time.Duration
	// Err is what the caller gets.
	Err error
}

// SlotError refuses a slot that is too far from now. The job did not run.
type SlotError struct {
	// Job is the job's name.
	Job string
	// Slot is the time that the caller gave.
	Slot time.Time
	// Late is how long ago the slot was by the clock of this process; negative for a slot that is to come.
	Late time.Duration
	// Limit is the Tolerance or the MaxSkew that was passed.
	Limit time.Duration
}

func (e *SlotError) Error() string {
	slot := e.Slot.UTC().Format(time.RFC3339Nano)
	if e.Late < 0 {
		return fmt.Sprintf("exclusive: slot %s of job %q is %s ahead, more than the MaxSkew of %s: give the slot that is due, and check the clock of this machine",
			slot, e.Job, -e.Late, e.Limit)
	}
	return fmt.Sprintf("exclusive: slot %s of job %q was %s ago, not within the Tolerance of %s: whether it has run cannot be known any more",
		slot, e.Job, e.Late, e.Limit)
}
