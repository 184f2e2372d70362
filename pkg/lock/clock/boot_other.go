// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package clock

// Boot is Go's monotonic clock: outside Linux there is no portable clock that counts sleep.
func Boot() Clock { return Monotonic() }
