// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET |
	syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// Start starts the node's first process and records it. The node outlives the
// caller. Connections to the listener reach the API server.
//
// The order makes a crash harmless at any point: the new process does nothing
// until the record is on the disk, and ends if the caller ends before that.
func Start(dir state.Dir, spec Spec, listener *net.TCPListener) error {
	output, err := os.OpenFile(dir.Log("node"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	socket, err := listener.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	gateReader, gate, err := os.Pipe()
	if err != nil {
		return err
	}
	defer gate.Close()

	cmd := exec.Command(spec.Program, EnterCommand, dir.Root())
	cmd.Dir = "/"
	cmd.Env = environment(spec)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{gateReader, socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true}
	err = cmd.Start()
	gateReader.Close() //nolint:errcheck // Only read by the child.
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("start the node: %w; the local cluster needs root", err)
	}
	if err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	// Reaps the node while this process lives; after that the host's init does.
	go cmd.Wait() //nolint:errcheck // How it ended is read from the progress file.

	process, err := state.Identify(cmd.Process.Pid)
	if err == nil {
		err = dir.RecordNode(process)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("record the node: %w", err), cmd.Process.Kill())
	}
	_, err = gate.Write([]byte{1})
	return err
}

// environment is all that the node's processes take over from the caller: what
// is set for a user's shell, a proxy above all, does not belong into a cluster.
func environment(spec Spec) []string {
	path := filepath.Dir(spec.Binaries["containerd-shim-runc-v2"]) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	return []string{"PATH=" + path, "HOME=/root", "LANG=C.UTF-8"}
}
