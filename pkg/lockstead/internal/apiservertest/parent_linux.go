// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"os/exec"
	"syscall"
)

// endWithParent lets the kernel end the process when the thread that started it does, so that a killed test leaves nothing
// running. Start must therefore be called from a goroutine that keeps its thread: TestMain, after runtime.LockOSThread.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
