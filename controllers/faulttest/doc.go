// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faulttest disturbs the operator, and compares what it makes in the end with what an undisturbed one makes. It has tests only.
//
// A story is something that happens in the life of a lock namespace: it is made, its password is rotated, its server loses its data. Each is
// told once undisturbed, and then again for every request that the operator sends in it, to a real API server and a real Redis server:
//
//	kill   the operator ends right before the n-th change, so that every state between two writes is seen; a new one takes over
//	lose   the n-th change is made, and the operator learns of an error all the same
//	fail   the n-th request, a change or not, is not sent, and the operator learns of an error
//
// With LOCKSTEAD_FAULT_EVERY_REQUEST=1 in the environment every story is told in all three ways, which takes twenty times as long; without it in the
// first, and those of a first look, a rotation and a loss of data in the second as well.
//
// TestRefusals has the API server refuse a third of all writes in some of them, as conflicts, throttling and time-outs.
//
// At every look in between, and at rest, the promises are checked: an epoch never falls, a lock that is held is not granted a second time, what
// is told to be ready works, and no password is told. At rest nothing is written any more, a new operator has nothing to do, and every object,
// user and record is what it is without a disturbance.
//
// A new story is a function in stories_test.go and a line in its table. When one fails, its name says where: TestEveryPoint/rotation,_external/kill/3 is the
// fourth change of the story "rotation, external".
package faulttest
