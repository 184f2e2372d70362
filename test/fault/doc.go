// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault tests what the lock library promises on real servers while things go wrong: clients are processes of their own that take locks and write
// to what these guard, a fault hits them or their server, and every request, answer and belief is written down and judged afterwards.
//
//	make fault                                   every fault on every backend
//	make fault FAULT=F2 BACKEND=redis SEED=7     one of them
//	make fault ROUNDS=20                         twenty seeds of each
//	make fault-controls                          planted bugs, which the checkers must find
//
// A run is a third of health, then the fault again and again, and a quiet end. Package history is what is written down, package check has the checkers, package
// client is the application, package resource what the locks guard. A seed repeats the choices of the rig and the clients, not the schedule of the machine. A
// run that fails is kept in dist/fault/failures with its history and a page that shows it.
//
// # What is covered
//
// Backends: Redis with functions and AOF always, PostgreSQL, memory. Faults: F0 to F7 and F13, as the list in inject_test.go says; the network faults go through
// a proxy before each client. A plain go test runs F1, F5, F7 and F13, one seed each. The
// controls are the eight bugs of client.Bugs, each found by one checker at least, and a Redis server that loses its data and is used without the operator: exclusion
// breaks, as the package redislock says, and the fence holds.
//
// Not covered yet: Leases; network namespaces, loss and bandwidth; Redis without persistence and with a replica under arming; steps of the server's clock (F7 to F10 of
// the plan in part); faults of the API server and etcd (F11, F12, F16); clocks of clients that run at another rate (F14), for which client.Config has Rate; a change of the
// backend (F15); a report.
package fault
