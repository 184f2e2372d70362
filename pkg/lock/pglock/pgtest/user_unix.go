// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"syscall"
)

// nobody is the user of the servers when the tests run as root.
const nobody = 65534

// unprivileged makes a process of root one of nobody.
func unprivileged() *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// giveAway lets the user of the servers write to a path.
func giveAway(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := os.Chown(path, nobody, nobody); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	return nil
}
