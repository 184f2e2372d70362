// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scoring pays a provider for one score an event, though the queue may hold two rows for the event and every replica takes rows
// from it.
//
// # What it takes
//
// A lock, with wait 0. The call costs money, and there is no row that stands for "this event is being scored" before it is: one made only to be
// locked would have to be cleaned up after a crash. Were there a row of the event that this program owns, a claim-lease on it would be simpler.
// Optimistic concurrency comes too late: the second call is paid when its write is refused.
//
// The lock collapses the duplicate call. What is stored is guarded by the fencing token, which the table of scores compares: a worker that was
// stopped past its lock does not overwrite the score of its successor.
//
// # What contention answers
//
// Success, and a line in the log: the other row of the event is doing the work, so this one has nothing left to do and is acknowledged. If
// the other one fails, its own row stays in the queue. For that to hold after a crash too, the queue must not give the row of a dead worker out again
// before the lock of that worker has run out, or the row would be taken for a duplicate of itself: New refuses such durations.
//
// # When the store of locks is down
//
// Nothing is scored and nothing is paid: the row goes back to the queue with the error.
package scoring
