// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claim gives the workers of an application claims on the rows of a PostgreSQL table that are due: an outbox, a queue of jobs, a schedule.
//
//	jobs, err := claim.New[Job](claim.Pgx(pool), claim.Relation{Name: "jobs", Key: []string{"id"}}, nil)
//	…
//	worker, err := claim.NewWorker(jobs, func(ctx context.Context, c *claim.Claim[Job]) error {
//		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//			if err := c.Complete(ctx, claim.Pgx(tx)); err != nil {
//				return err // lost: somebody else has the row, and the transaction is rolled back
//			}
//			return book(ctx, tx, c.Row())
//		})
//	}, nil)
//	…
//	err = worker.Run(ctx)
//
// # Which to choose
//
//	the work                                     take
//	─────────────────────────────────────────    ──────────────────────────────────────────────────────────
//	owns a durable row                           a claim: it survives the loss of Redis, and its end is in
//	                                             the transaction of the work
//	has no row (a cache entry, a paid call)      a lock: package lock. Make no row only to hold a claim
//	is a cheap write that rarely conflicts       neither: compare the row's version in the update
//
// No transaction is open while the work runs.
//
// # What it promises
//
// A claim stamps locked_until, a random lock_token and a fence that grows by one. Extending and ending a claim have the token as their predicate, so
// a claim that was taken over changes nothing and gets a *LostError. An effect that is written in the transaction of Complete, Delete or
// RescheduleAt is therefore written once for each time that the row is due.
//
// The context of a claim ends before the server lets another have the row: its time counts from before the statement was sent, less 1 %, less a
// guard of 50 ms (at most a tenth of the TTL, at least a hundredth). All decisions on the row are by the server's clock; no client's wall clock counts.
//
// # What breaks it
//
//   - Work with effects outside that transaction is done at least once: a worker that is paused past its TTL goes on when it wakes, and one that dies
//     before the commit is repeated. Hand Claim.Fence to what it writes to, or make the effect idempotent.
//   - A server clock that steps forward ends claims early. The token still guards the end of a claim; two workers may run at the same time.
//   - A failover to a replica that lacks the last commits brings back older tokens and fences. Replicate synchronously where that counts.
//   - Other statements that write the columns of the claim.
//
// Rows that fail are due again after a pause, and after MaxAttempts they are left: Table.Exhausted finds them. Needs PostgreSQL 12 or later.
package claim
