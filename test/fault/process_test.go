// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
	"github.com/lockstead/lockstead/test/fault/client"
	"github.com/lockstead/lockstead/test/fault/history"
)

// process is one that ends with the test binary, also when that is killed.
type process struct {
	cmd   *exec.Cmd
	done  chan struct{}
	err   error // valid once done is closed
	ended int64
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the thread that started the process ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			p.ended = history.Now()
		}
	}()
	return p, <-started
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// slot is the place of a client, which has one process after another.
type slot struct {
	config client.Config
	stderr *strings.Builder
	// path is the proxy between the client and its store.
	path *faultproxy.Proxy

	running *process
	past    []history.Process
	files   []string
	// crashes are processes that ended by themselves with an error.
	crashes []error
}

func (s *slot) start(dir string) error {
	c := s.config
	c.Name = fmt.Sprintf("%s.%d", c.Name, len(s.files)+1)
	c.Seed += uint64(len(s.files)) << 32
	c.History = filepath.Join(dir, c.Name+".jsonl")
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(binary, "-test.run=^$")
	cmd.Env = append(os.Environ(), clientVariable+"="+string(text), "GOMAXPROCS=2")
	cmd.Stderr = s.stderr
	s.running, err = startProcess(cmd)
	s.files = append(s.files, c.History)
	return err
}

// kill ends the process by SIGKILL.
func (s *slot) kill() { s.running.kill(); s.collect(true) }

// stop lets the process end in good order.
func (s *slot) stop(patience <-chan struct{}) {
	s.running.signal(syscall.SIGCONT)
	s.running.signal(syscall.SIGTERM)
	select {
	case <-s.running.done:
		s.collect(false)
	case <-patience:
		s.running.kill()
		s.collect(true)
		s.crashes = append(s.crashes, fmt.Errorf("%s did not end when it was told to", s.config.Name))
	}
}

func (s *slot) collect(killed bool) {
	path := s.files[len(s.files)-1]
	records, err := history.ReadFile(path)
	// One that was told to end while it was still starting ends by the signal, and has done nothing.
	if ended := s.running.err; ended != nil && !killed && len(records) > 0 {
		s.crashes = append(s.crashes, fmt.Errorf("%s: %w", s.config.Name, ended))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.crashes = append(s.crashes, err)
	}
	name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
	s.past = append(s.past, history.Process{Name: name, Records: records, Ended: s.running.ended})
	s.running = nil
}
