// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is one program that this package started.
type process struct {
	name  string
	log   string
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // valid once ended is closed
}

func (s *Server) run(program string, args ...string) error {
	name := filepath.Base(program)
	p := &process{name: name, log: filepath.Join(s.dir, name+".log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	// Not bound to a context: stop ends it in order, and the kernel if the test dies.
	p.cmd = exec.Command(program, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Dir = s.dir
	endWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	s.procs = append(s.procs, p)
	return nil
}

// stop asks the process to end and makes it end.
func (p *process) stop() error {
	const grace = 10 * time.Second
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

func (p *process) logTail() string {
	const most = 4000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// findAssets returns the folder with etcd and kube-apiserver: $KUBEBUILDER_ASSETS, else what the repository's script builds
// or finds in its cache.
func findAssets(ctx context.Context) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	const script = "hack/cluster/assets.sh"
	for {
		path := filepath.Join(dir, script)
		if _, err := os.Stat(path); err == nil {
			cmd := exec.CommandContext(ctx, path)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return "", fmt.Errorf("%s: %w", script, err)
			}
			return strings.TrimSpace(string(out)), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no etcd and kube-apiserver: set KUBEBUILDER_ASSETS to their folder, or run inside the repository, whose %s builds them", script)
		}
		dir = parent
	}
}
