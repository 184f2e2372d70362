// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault tests what the lock library promises on real servers while things go wrong: clients are processes of their own that take locks and write
// to what these guard, a fault hits them or their server, and every request, answer and belief is written down and judged afterwards.
//
//	make fault                                   every fault on every backend
//	make fault FAULT=F2 BACKEND=redis SEED=7     one of them
//	make fault ROUNDS=20                         twenty seeds of each
//
// A run is a third of health, then the fault again and again, and a quiet end. Package history is what is written down, package check has the checkers, package
// client is the application, package resource what the locks guard. A seed repeats the choices of the rig and the clients, not the schedule of the machine. A
// run that fails is kept in dist/fault/failures with its history and a page that shows it.
package fault
