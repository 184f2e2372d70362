// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leaseformat is how a lock is written as a coordination.k8s.io/v1 Lease, and when a reader may take a Lease for abandoned. The
// lock driver and the operator's reaper share it. It does no I/O.
//
// A lock is one Lease:
//
//	metadata:
//	  name: lk-9f86d081…                          SHA-256 over the length-prefixed prefix and key
//	  labels:
//	    lockstead.dev/lock: "true"
//	    lockstead.dev/prefix: 5e884898…           hash of the prefix, to list one lock namespace
//	  annotations:
//	    lockstead.dev/prefix: lk:{payments/billing}:
//	    lockstead.dev/key: order:17               (…-base64 when the text is not UTF-8)
//	    lockstead.dev/acquisition: 32 hex digits  the holder, the only thing that tells one
//	    lockstead.dev/owner, /epoch, /sequence    for people
//	spec:
//	  leaseDurationSeconds: 30                    how long a reader waits without seeing a change
//	  holderIdentity, acquireTime, renewTime, leaseTransitions: for people, never part of a decision
//
// # When a Lease is abandoned
//
// Times in a Lease come from the wall clocks of other machines, so no reader compares them with its own. A reader may take a
// Lease over, or delete it, after a full duration of that Lease during which the reader itself saw no change of its
// resourceVersion, counted from the moment the reader received that version. Observations keeps those moments. The
// write that follows must carry the UID and the resourceVersion that were observed.
package leaseformat
