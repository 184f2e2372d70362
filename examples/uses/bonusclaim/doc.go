// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bonusclaim pays a user the bonus of an offer once, however often and wherever the button is pressed.
//
// # What it takes
//
// A lock with wait 0, and a unique constraint. The bonus is paid out by another service, which has no key to tell repeats by; the claim is recorded
// when it has been paid. The lock keeps a double click from paying twice; the constraint keeps the table right when a replica is stopped past its
// lock. Where the paying service takes an idempotency key, give it user and offer, and take no lock.
//
// # What contention answers
//
// 409 at once: the claim is being paid, and there is nothing to wait for. A claim that was paid before is 409 too, with another text.
//
// # When the store of locks is down
//
// 503, and nothing is paid.
package bonusclaim
