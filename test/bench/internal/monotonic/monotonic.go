// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monotonic reads a clock that all processes of this machine see alike.
package monotonic

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since an origin that is the same for all processes until the machine starts again.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}
