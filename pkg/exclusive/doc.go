// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exclusive runs a job on one replica of an application while the others skip it.
//
//	jobs, err := exclusive.New(client, nil)
//	…
//	// report is a func(ctx context.Context, h *lock.Handle) error
//	outcome, err := jobs.RunExclusive(ctx, "nightly-report", report, &exclusive.JobOptions{
//		Slot: slot, // the time that the schedule gave for this run
//	})
//
// A replica that skips logs why at Info, reports an outcome, and returns no error: for the caller the job is done. A store that cannot be asked is an error
// and never counts as success.
//
// # Once per slot
//
// All replicas tick, but never at the same instant. A lock alone does not help a short job: it is free again before the next replica
// asks, so the job runs once per replica. Two options keep the runs apart.
//
// JobOptions.Slot is for schedules with fixed times. A slot is the time for which the schedule planned the run, and has a key of its own. After a run that
// succeeded the key stays locked for as long as any replica may still ask for this slot, which is Tolerance after it by the replica's own clock. Later the replica
// is refused with a *SlotError. So a slot is run once, as long as the wall clocks of the replicas differ by at most MaxSkew. Take the slot
// from the schedule, not from the present time: two replicas whose ticks are a second apart must give the same slot.
//
// JobOptions.MinHold is for jobs without fixed times. The job's key stays locked for at least that long from when it was taken, whoever asks. Make it longer
// than the ticks of the replicas are apart, and shorter than the pause between two runs. It does not depend on wall clocks.
//
// # What ends a run
//
// The lock is renewed while the job runs, for MaxHold at most. The job's context ends with the caller's, and with the lock: then its cause is a
// *lock.LostError, the outcome is Lost, and another replica may have begun. As with every lock, give what the job writes the fencing token if it
// matters.
//
// A job that returns an error or panics frees its keys at once, so that another replica, or the caller, may run it again; HoldAfterFailure keeps them.
// When a process dies in a run, the keys stay locked for their TTL, which is at least MinHold and, for a slot, until the slot is over.
package exclusive
