// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME of clock_gettime(2): monotonic, and it counts the time that the machine slept.
const clockBoottime = 7

// Boot is CLOCK_BOOTTIME. Its timers are Go's, which stop while the machine sleeps: after a resume a timer is late, so whoever
// relies on an instant having passed compares Now with it.
func Boot() Clock {
	if _, ok := boottime(); !ok {
		return Monotonic()
	}
	return boot{}
}

type boot struct{ monotonic }

func (boot) Now() Instant {
	now, _ := boottime()
	return now
}

func boottime() (Instant, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return Instant(time.Duration(ts.Nano())), errno == 0
}
