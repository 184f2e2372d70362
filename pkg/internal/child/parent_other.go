// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package child

import "syscall"

func endWithParent(*syscall.SysProcAttr, syscall.Signal) {}
