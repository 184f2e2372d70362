// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package locknamespace binds LockNamespaces to what keeps their locks.
//
// The first reconciliation that accepts a LockNamespace records its backend in the status, before anything is made for it: the RedisInstance
// that it names, else the operator's default one, else Leases. What is recorded never changes. An instance that is missing gives no
// binding, and never one for Leases, since replicas on two backends would not exclude each other.
//
// Then it is programmed: a user limited to its prefix on the Redis server, or a Role and RoleBinding for Leases; and last the binding Secret,
// which applications mount. Every step compares first, so that a repeated reconciliation sends no write, and each can be repeated
// after the operator ended in the middle. A LockNamespace has no finalizer: what was made in its namespace goes by owner reference,
// and its user on the server is swept by the redisinstance controller.
package locknamespace
