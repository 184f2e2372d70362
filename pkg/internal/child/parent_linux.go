// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import "syscall"

// endWithParent ends the process also when the one that started it is killed or panics.
func endWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }
