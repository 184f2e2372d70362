// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package idempotencywindow closes the window between executing a request and storing its answer, for a route where clients send an
// Idempotency-Key and repeat themselves when an answer is late.
//
// # What it takes
//
// A lock, since the effect is somewhere else: a payment is made at the provider, and no row of ours exists before it that could be claimed.
// Two repeats that both find nothing stored would both pay. The order is: read without a lock; lock; read again; execute; store;
// release; answer. The store keeps the first answer of a key, so that after a lost lock all repeats still see one and the same answer.
//
// Where the effect is a row of the same database, a unique constraint on the key in the transaction of that row is enough.
//
// The key of the lock is a digest over caller, method, path and the client's key: what clients send does not become readable in the store of locks, and
// two callers never meet.
//
// # What contention answers
//
// 409 with Retry-After, when the first request is still being executed at the end of the wait. The repeat was not executed. The same key
// with another body is a mistake of the client, and gets 422.
//
// # When the store of locks is down
//
// 503, and nothing is executed, since here a duplicate costs money. A route where it does not may go on without.
package idempotencywindow
