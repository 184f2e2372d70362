// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import "syscall"

// endWithParent ends the server also when the test binary is killed or panics.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
