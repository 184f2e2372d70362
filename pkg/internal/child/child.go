// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package child runs the servers of tests: processes that end with the process that started them, on Linux also when that one is killed.
package child

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is a running process. Its methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts the command, and sets what it needs to end with this process: orphaned is the signal that it then gets.
func Start(cmd *exec.Cmd, orphaned syscall.Signal) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	endWithParent(cmd.SysProcAttr, orphaned)
	started := make(chan error, 1)
	go func() {
		// The kernel sends the signal of endWithParent when the thread that started the process ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	return p, <-started
}

// Done is closed when the process has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// State tells how the process ended; call it when Done is closed.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill ends the process by SIGKILL and waits for it.
func (p *Process) Kill() {
	if !p.Ended() {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// End sends a signal that ends the process, and waits for that.
func (p *Process) End(signal syscall.Signal, patience time.Duration) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("stop of the server: %w", err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("the server did not stop within %s", patience)
	}
}

// Freeze stops the process without ending it, until thaw is called.
func (p *Process) Freeze() (thaw func(), err error) {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("freeze of the server: %w", err)
	}
	return sync.OnceFunc(func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }), nil
}

// Outlives waits for pause, between two looks at whether the process is ready. It reports false as soon as the process or ctx ends.
func (p *Process) Outlives(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.done:
		return false
	case <-ctx.Done():
		return false
	}
}

// FreePort is a port of the loopback address that nobody listens on for the moment. Somebody may be quicker: be ready to take another.
func FreePort() (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
