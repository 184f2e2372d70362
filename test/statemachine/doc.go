// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statemachine has random sequences of calls run against the lock client, in the virtual time of testing/synctest, and checks after
// each call what must be true at any time. It has tests only. It is not part of module pkg, whose users do not need pgregory.net/rapid.
//
// A sequence that breaks a rule is made shorter by rapid, printed, and kept in testdata/rapid, from where it is run again first. The flags
// -rapid.checks and -rapid.seed say how many sequences and which: go test ./test/statemachine -rapid.checks=100000
package statemachine
