// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// childVariable makes the test binary the service itself.
const childVariable = "ORDERS_TEST_CHILD"

// process is one life of a replica.
type process struct {
	url, adminURL string
	cmd           *exec.Cmd
	// done is closed when the process has ended and its log was read.
	done chan struct{}
	// disturbed is set once the process was killed or stopped, or has said that it was degraded.
	disturbed atomic.Bool
	// trap is what to do at the next order that it logs, once.
	trap atomic.Pointer[func()]
}

// line is what the test reads of a record of the log.
type line struct {
	Msg       string `json:"msg"`
	Addr      string `json:"addr"`
	AdminAddr string `json:"adminAddr"`
	Operation string `json:"operation"`
	Created   bool   `json:"created"`
	Reason    string `json:"reason"`
}

// journal is what the processes have logged.
type journal struct {
	mu sync.Mutex
	// executions are the processes that executed an operation, in the order of their log records.
	executions map[string][]*process
	// found is how many executions found the order of an earlier one.
	found int
	// degraded counts by reason.
	degraded map[string]int
	// lines are the last ones, to be shown when the test fails.
	lines []string
}

func newJournal() *journal {
	return &journal{executions: make(map[string][]*process), degraded: make(map[string]int)}
}

func (j *journal) take(p *process, raw []byte) line {
	j.mu.Lock()
	defer j.mu.Unlock()
	var l line
	if json.Unmarshal(raw, &l) != nil || !slices.Contains([]string{"order placed", "serving", "wait for a lock ended without it"}, l.Msg) {
		const kept = 40
		j.lines = append(j.lines[max(0, len(j.lines)-kept):], string(raw))
	}
	switch l.Msg {
	case "order placed":
		j.executions[l.Operation] = append(j.executions[l.Operation], p)
		if !l.Created {
			j.found++
		}
	case "idempotency is degraded":
		j.degraded[l.Reason]++
		p.disturbed.Store(true)
	}
	return l
}

// startProcess starts a replica and returns when it serves.
func startProcess(j *journal, environment []string) (*process, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(binary), done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), childVariable+"=yes", "ORDERS_ADDR=127.0.0.1:0", "ORDERS_ADMIN_ADDR=127.0.0.1:0"), environment...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = os.Stderr
	serving := make(chan error, 1)
	go func() {
		defer close(p.done)
		runtime.LockOSThread() // The signal of Pdeathsig comes when the thread ends that started the process.
		defer runtime.UnlockOSThread()
		if err := p.cmd.Start(); err != nil {
			serving <- err
			return
		}
		p.read(j, output, serving)
		_ = p.cmd.Wait()
	}()
	if err := <-serving; err != nil {
		<-p.done
		return nil, fmt.Errorf("a replica does not serve: %w", err)
	}
	return p, nil
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

// read reads the log to its end, and tells when the process serves, or that it ended before.
func (p *process) read(j *journal, output io.Reader, serving chan<- error) {
	told := false
	for records := bufio.NewScanner(output); records.Scan(); {
		switch l := j.take(p, records.Bytes()); l.Msg {
		case "serving":
			p.url, p.adminURL, told = "http://"+l.Addr, "http://"+l.AdminAddr, true
			serving <- nil
		case "order placed":
			if spring := p.trap.Swap(nil); spring != nil {
				(*spring)()
			}
		}
	}
	if !told {
		serving <- io.ErrUnexpectedEOF
	}
}

// signal sends one to the process; one that has ended does not mind.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }
