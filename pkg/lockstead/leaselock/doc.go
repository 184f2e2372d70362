// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leaselock keeps locks as coordination.k8s.io/v1 Leases in one Kubernetes namespace, for applications without a Redis. Most programs get
// it through lockstead.Open; package leaseformat says how a lock is written.
//
// # What holds
//
// At most one acquisition holds a key at any instant, as long as the assumptions below hold. Fencing tokens of one key grow without any
// assumption about time: a token is the epoch and the resourceVersion of the acquiring write, which etcd raises with every write, also when a
// Lease was deleted and made anew.
//
// Every write is conditional: an acquire creates the Lease or updates it with the UID and resourceVersion that were read, a renewal and a
// release carry those of this process's own last write. After a refusal the Lease is read once more, and written only if it is
// the same object and still carries our acquisition id. So a late release or renewal cannot touch the next holder.
//
// Nobody's wall clock takes part in a decision. A contender takes over after it has itself seen the Lease unchanged for the Lease's whole duration,
// counted from the moment it received that version. A process that has just started therefore waits one TTL for the lock of a holder
// that died before; with a wait of 0 it is refused until the operator's reaper has deleted the Lease.
//
// A holder whose Lease is deleted, edited or taken over is told at once through the watch; without the watch, at its next renewal.
//
// # What is assumed
//
// The clocks of two machines run at the same rate to within one percent. Nobody but this library writes to the Leases of locks: what a person
// edits is noticed, but between the edit and the news two holders are possible. After etcd was restored from a backup, stop all replicas, raise
// the epoch in the binding, and start them.
//
// Leases isolate Kubernetes namespaces, not applications within one: whoever may create Leases in the namespace can take any lock
// there. Keys stand in annotations in clear text: hash what is secret.
//
// # Cost
//
// A free key costs one request to acquire and one to release; each renewal is one. A held key costs two. Each process keeps one watch for a
// prefix. Every write goes to etcd, so a few hundred locks a second are a lot; use Redis beyond that.
package leaselock
