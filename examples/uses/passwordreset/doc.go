// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package passwordreset redeems a single-use token: it reads the reset that the token belongs to, compares, removes it, and sets the new
// password.
//
// # What it takes
//
// A lock, because the resets are in a store that can only read and remove (a cache, a secret store): between the read and the removal a second
// request with the same token would pass the same comparison. Where the resets are rows of a database, take none: one
// "DELETE … WHERE digest = $1 AND expires_at > now() RETURNING account" is the whole redemption. A claim-lease would be worse than both: the
// row is to be used up, not worked on.
//
// Keys of locks are readable by people who can read the store of locks, so the key has a digest of the token, never the token.
//
// # What contention answers
//
// "Invalid token", as for a token that was used: whoever holds the lock is using it up, and after that it is invalid. The status is
// 400 either way, so that nobody learns from it that a token exists.
//
// # When the store of locks is down
//
// 503, and the token stays good: the user tries again.
package passwordreset
