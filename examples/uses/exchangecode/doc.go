// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exchangecode redeems the single-use code of an OAuth authorization: it reads the grant that the code stands for, compares the
// client, removes the grant, and issues the tokens.
//
// # What it takes
//
// A lock, as package passwordreset does and for the same reason: the grants are in a cache that can only read and remove. A store that
// removes and returns in one step (GETDEL of Redis, DELETE … RETURNING) needs none. The key has a digest of the code, since keys are readable.
//
// # Without a lock
//
// A small installation may run without a store of locks: New takes nil for it, keeps the locks in the memory of the process, and warns once. A code
// is then single-use per replica only: sent to two replicas at once, it may be redeemed on both. It is not a fallback for a store that is down.
//
// # What contention answers
//
// "invalid_grant", as for a code that was used (RFC 6749, section 5.2): whoever holds the lock is using it up.
//
// # When the store of locks is down
//
// "temporarily_unavailable" with 503, and the code stays good until it expires.
package exchangecode
