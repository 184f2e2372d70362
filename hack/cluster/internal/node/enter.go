// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

// Enter is the first thing that the node's first process does.
func Enter(dir state.Dir) error {
	gate := os.NewFile(gateFD, "gate")
	if _, err := gate.Read(make([]byte, 1)); err != nil {
		return errors.New("the command that started this node ended before it had recorded it")
	}
	if err := gate.Close(); err != nil {
		return err
	}
	if err := joinCgroup(dir.Cgroup()); err != nil {
		return err
	}
	spec, err := loadSpec(dir)
	if err != nil {
		return err
	}
	// Only the calling thread gets the new namespace, so the program goes on in
	// another image of itself, executed by that thread.
	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make a cgroup namespace: %w", err)
	}
	err = syscall.Exec(spec.Program, []string{spec.Program, InitCommand, dir.Root()}, os.Environ())
	return fmt.Errorf("execute %s: %w", spec.Program, err)
}

// Init is process 1 of the node: it reaps what other processes leave behind, and
// ends when Run has ended, which takes the whole node down.
func Init(dir state.Dir) error {
	spec, err := loadSpec(dir)
	if err != nil {
		return err
	}
	// Process 1 gets no signal that it does not handle. Job control of a
	// terminal is not meant for the node.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM)
	child, err := os.StartProcess(spec.Program, []string{spec.Program, RunCommand, dir.Root()}, &os.ProcAttr{
		Dir: "/",
		Env: os.Environ(),
		Files: []*os.File{
			os.Stdin, os.Stdout, os.Stderr, nil, os.NewFile(listenerFD, "listener"),
		},
	})
	if err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait for the node's processes: %w", err)
		case pid == child.Pid:
			return fmt.Errorf("the node's supervisor ended: status %d", status)
		}
	}
}
