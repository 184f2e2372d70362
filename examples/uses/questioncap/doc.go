// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package questioncap lets a user have so many open questions in a session and no more: it counts, then inserts.
//
// # What it takes
//
// A lock per session and user. Count-then-insert has no row to put a version or a claim on: each request inserts a row of its own, so two
// transactions that both counted two of three both insert, at every isolation level below serializable. Where the database runs serializable
// transactions, or keeps the number in a row ("UPDATE … SET open = open + 1 WHERE open < 3"), take that and no lock.
//
// The names in the key are not secrets: a session here is a meeting with questions, not a cookie.
//
// # What contention answers
//
// The same as the cap itself, 429: a user whose requests queue for longer than the wait is asking too much at once, whatever the
// count would have been. Nobody is told that there is a lock.
//
// # When the store of locks is down
//
// 503, and nothing is inserted. To let questions through above the cap instead is a choice that an application can make in
// Asker.Ask, for lock.ErrUnavailable; it is not made here, since the cap is there to keep a moderator from being flooded.
package questioncap
