// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lock gives the replicas of an application locks that all of them see.
//
//	client, err := lockstead.Open(ctx, nil) // reads the mounted binding: Redis or Kubernetes Leases
//	…
//	h, err := client.TryAcquire(ctx, lock.Key("order", id), 30*time.Second, 5*time.Second)
//	if errors.Is(err, lock.ErrHeld) {
//		return alreadyBeingProcessed
//	}
//	if err != nil {
//		return err
//	}
//	defer h.Release(ctx)
//	charge(h.Context(), id, h.Token())
//
// # What it promises
//
// Best-effort exclusion, with fencing as the backstop. Under the assumptions of the backend at most one handle of a key is valid
// at any instant: the deadline of a handle counts from before its request was sent, less one percent and a guard, so it passes before the store can
// grant the key again. A holder that is paused past its TTL loses the lock, and nothing can keep it from writing afterwards. So
// use a lock to collapse duplicate work, never as the only guard of an invariant that a database can enforce.
//
// For those who need more, every grant carries a fencing token, and the tokens of one key only grow, without any assumption
// about time. A resource that remembers the greatest token and refuses smaller ones is not written by a stale holder after a
// newer one.
//
// # States
//
//	       Release, Leave
//	  ┌──── Held ────────► Released   Context ends with ErrReleased
//	  │      │
//	  │      │ deadline passed, store says no, record changed by hand,
//	Renew    │ taken away by ForceRelease, backend changed, maximum hold
//	         ▼
//	        Lost(reason)              Context ends with a *LostError
//
// Both ends are final: a handle never becomes valid again, and a renewal never takes back a lock that was lost. Release frees the key; Leave
// keeps it locked for a time that nothing but ForceRelease cuts short.
//
// Client.ForceRelease frees a key for people who know that its holder is stuck. It is the one call that breaks exclusion on purpose: the holder learns of it
// at its next renewal, or at once where the store tells, and until then both may work. Its token is less than that of whoever comes next.
//
// # Outcomes
//
// A call answers with a handle, or "held elsewhere" (ErrHeld), or a fault of the store (ErrUnavailable: certainly nothing was applied;
// ErrUnknown: perhaps it was, the caller does not hold the lock, and the library releases it in the background), or the end of the caller's
// context. They are told apart with errors.Is.
//
// # Waiting
//
// A waiter sleeps until the store tells that the key was freed, until the holder's record runs out, or until a slow poll,
// whichever is first. Goroutines of one process that wait for one key form a queue, and only its head talks to the store. Where the store can
// do it in one conditional write, a release passes the lock to the head, with an acquisition id and a token of its own; after 16 passes or 100 ms
// the lock is released for everyone, so that other processes get their turn.
//
// # Watching it
//
// Options.Logger gets the times of every acquire and hold at Debug, and at Warn every lost lock and every wait that ended without the lock. Options.Observers
// are told of the same, and of renewals and faults of the store, for metrics and traces; without any they cost nothing. Neither gets a secret, but both get
// keys: hash what is sensitive before it becomes a key.
//
// # Backends
//
// Package redislock keeps locks in one Redis or Valkey server, leaselock in Kubernetes Leases, pglock in a PostgreSQL
// database, memlock in the memory of one process for tests and single-replica tools. Each says in its documentation what it assumes and what breaks it. Package
// locktest is the suite that they all pass; use it for a backend of your own over package driver.
package lock
