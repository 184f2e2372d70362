// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leasereaper deletes the Leases of locks whose holder is gone.
//
// A process that asks once and does not wait cannot tell a dead holder from a living one: it has not watched the Lease for long enough. The
// reaper has. It obeys the rule of package leaseformat: a Lease goes after its full duration during which this process saw no change of its
// resourceVersion, counted from the moment this process received that version. The observations start when the process becomes the leader,
// and a resynchronisation of the cache changes none. The delete carries the UID and the version that were observed, so a holder
// that renews in the same moment keeps its lock.
package leasereaper
