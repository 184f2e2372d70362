// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redislock keeps locks in a Redis or Valkey server. It is a driver: give it to lock.New, or let lockstead.Open or
// FromBinding make it from the binding that Lockstead's operator wrote.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", MaxRetries: -1, ContextTimeoutEnabled: true})
//	d, err := redislock.New(client, &redislock.Options{Access: binding.AccessScripts})
//	locks, err := lock.New(d, "lk:{payments/billing}:", nil)
//
// # What the server keeps
//
// A lock is one string key that runs out by itself, with the acquisition id, the fencing token and the owner. An acquire and a release are
// one round trip each: server-side code sets the key if it is absent and counts the grant, or deletes it if the id matches and
// publishes on the key's channel. A lock that goes to the next waiter of the same process is written anew on the condition of the old id, in one
// round trip and without a notification. Renewals that fall due together are one pipeline. One counter serves a whole lock namespace, so the tokens of all its locks cost one key. Package
// redisproto has the layout.
//
// # Functions and scripts
//
// With binding.AccessFunctions, the default, the driver calls functions that the operator has loaded (Redis 7 and Valkey). The server grants
// only when it is armed: a server that was restarted without a guarantee that it lost nothing, or that came back empty, answers
// not-armed or no-epoch until the operator has waited out the longest TTL and raised the epoch.
//
// With binding.AccessScripts it sends scripts, for servers without functions or without the operator. Scripts have no arming: a server that lost
// its data grants again at once, so two holders can overlap until the older one's TTL is over. An epoch record that is missing is made from the
// server's clock, so that tokens go on growing as long as that clock was not set back below the moment of the previous epoch.
//
// # Cluster and Sentinel
//
// New takes any redis.UniversalClient. A client of a Redis Cluster needs redisproto.ClusterRules beside redisproto.TenantRules, and with functions the
// library on every primary. A client that wraps one will do: each request names all keys that it may write. A lock namespace lies in one slot. While its slot moves to another node, and its keys lie on two, acquires fail with ReasonCluster,
// and renewals with that or ReasonNoEpoch, and may be tried again; nothing is granted twice. The node that takes over is armed on its own.
//
// A client that asks Sentinel for the primary follows a failover with the next connection. A replica may lack the last grants, so with functions give
// the epoch record no leave to self-arm (redisproto.Epoch.SelfArm) where there is a replica: what is promoted then grants nothing until somebody has waited out the longest
// TTL, raised the epoch and armed it. With scripts, or with that leave, a failover can put two holders side by side. A primary that is cut off
// and does not know it grants until it notices; min-replicas-to-write bounds that.
//
// # What is promised, and on what conditions
//
// Under these conditions at most one acquisition of a key is held at any instant; without them the fencing tokens are the protection:
//
//   - One server answers at a time. A replica that is promoted may lack the last writes; with functions it grants nothing before it is armed.
//   - The server keeps what it acknowledged: appendonly yes, appendfsync always, and a default user with all rights (a
//     restricted one makes Redis drop the writes of functions when it replays its file). With functions, the operator arms other
//     set-ups only after the longest TTL.
//   - Nothing is evicted: maxmemory-policy noeviction. When memory is full an acquire is refused; renew and release still run.
//   - The server's wall clock does not jump forward by more than the client's margin within a TTL: Redis has no other
//     clock to expire keys by. No client's wall clock matters.
//
// # Outcomes
//
// The driver sends a request once. It knows whether a byte of it was written: before that a failure is ErrUnavailable, after it, without
// an answer, ErrUnknown. Every attempt is bounded by Options.AttemptTimeout beside the caller's context, so a server that hangs does not hang the
// caller; that error matches no context error. Refusals of the server are *driver.StoreError with one of the Reason constants.
package redislock
