// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is a running server.
type process struct {
	cmd *exec.Cmd
	// done is closed when the process has ended and was waited for.
	done chan struct{}
}

func launch(name string, args ...string) (*process, error) { return launchWith(name, args, nil, nil) }

// launchWith starts a process with an environment, nil for the present one, and a place for all its output.
func launchWith(name string, args, environment []string, output io.Writer) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = environment, output, output
	p.cmd.SysProcAttr = endWithParent()
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

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) kill() {
	if !p.ended() {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (p *process) terminate(patience time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
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

func (p *process) freeze() (thaw func(), err error) {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("freeze of the server: %w", err)
	}
	return sync.OnceFunc(func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }), nil
}
