// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package redistest

import "syscall"

func endWithParent() *syscall.SysProcAttr { return nil }
