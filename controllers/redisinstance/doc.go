// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redisinstance runs and administers the servers of RedisInstances.
//
// A managed one gets a StatefulSet with a volume, a Service, and an ACL file that the pod boots all users from, so that it needs no operator
// to come back. On every server the controller loads the function library, keeps the epoch, deletes the users of LockNamespaces that are
// gone, and looks for what could make the server lose, evict or expose locks. Tenants is the part that the locknamespace controller uses.
//
// The epoch of a server lives in the status of the RedisInstance and in a record on the server. When the record is missing or older, or a
// server that may forget acknowledged writes has restarted, locks may still be held that the server does not know. Then the epoch is raised,
// everything is disarmed, and nothing is granted until the longest TTL is over.
package redisinstance
