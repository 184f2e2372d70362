// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

const (
	stopInterval = 10 * time.Millisecond
	stopTimeout  = time.Minute
)

// Stop ends the node, if it runs, and removes all that is left of it. It works
// from whatever state a crash has left, and does nothing if there is none.
func Stop(ctx context.Context, dir state.Dir) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout,
		fmt.Errorf("still there after %s", stopTimeout))
	defer cancel()
	process, recorded, err := dir.Node()
	if err != nil {
		return err
	}
	if recorded {
		if err := kill(ctx, process); err != nil {
			return err
		}
	}
	if err := removeCgroup(ctx, dir.Cgroup()); err != nil {
		return err
	}
	return os.RemoveAll(dir.Root())
}

// kill ends the first process of the node, and with it all others. The kernel
// lets that process go only after them.
func kill(ctx context.Context, process state.Process) error {
	// A handle taken before the look rules out that the number has come to mean
	// another process between the look and the signal.
	handle, err := os.FindProcess(process.PID)
	if err != nil {
		return err
	}
	if !process.Alive() {
		return handle.Release()
	}
	err = handle.Signal(syscall.SIGKILL)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the node, process %d: %w", process.PID, err)
	}
	if err := poll(ctx, stopInterval, func() (bool, error) { return !process.Alive(), nil }); err != nil {
		return fmt.Errorf("wait for the node, process %d, to end: %w", process.PID, err)
	}
	return nil
}

// Status is what can be told about a node from outside.
type Status struct {
	// Running tells whether the first process lives.
	Running bool
	// Ready tells whether it has come up completely.
	Ready bool
	// Failed says why it never will.
	Failed string
	// Steps are the finished steps of the start.
	Steps []string
}

// Inspect reads the status of the node.
func Inspect(dir state.Dir) (Status, error) {
	process, recorded, err := dir.Node()
	if err != nil {
		return Status{}, err
	}
	content, err := os.ReadFile(dir.Progress())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Status{}, err
	}
	s := parseProgress(string(content))
	s.Running = recorded && process.Alive()
	s.Ready = s.Ready && s.Running
	return s, nil
}

func parseProgress(content string) Status {
	var s Status
	for line := range strings.Lines(content) {
		step, whole := strings.CutSuffix(line, "\n")
		if !whole {
			break
		}
		switch reason, failed := strings.CutPrefix(step, progressFailed); {
		case failed:
			s.Failed = reason
		case step == progressReady:
			s.Ready = true
		default:
			s.Steps = append(s.Steps, step)
		}
	}
	return s
}

// Follow passes on the steps of the start until the node is ready.
func Follow(ctx context.Context, dir state.Dir, report func(step string)) error {
	seen := 0
	return poll(ctx, probeInterval/2, func() (bool, error) {
		s, err := Inspect(dir)
		if err != nil {
			return false, err
		}
		for ; seen < len(s.Steps); seen++ {
			report(s.Steps[seen])
		}
		switch {
		case s.Ready:
			return true, nil
		case s.Failed != "":
			return false, fmt.Errorf("start the node: %s; the logs are in %s", s.Failed, dir.Path("logs"))
		case !s.Running:
			return false, fmt.Errorf("the node ended while it started; see %s", dir.Log("node"))
		}
		return false, nil
	})
}

// Inside returns a command line that runs the program in the node's namespaces.
func Inside(dir state.Dir, program string, args ...string) ([]string, error) {
	process, recorded, err := dir.Node()
	if err != nil {
		return nil, err
	}
	if !recorded || !process.Alive() {
		return nil, fmt.Errorf("cluster %s is not running; start it with `make cluster-up`", dir.Name())
	}
	enter := []string{"nsenter", "--target", strconv.Itoa(process.PID), "--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup", "--", program}
	return append(enter, args...), nil
}

// Import returns a command line that imports an image archive into the node.
// The node must be able to see the archive: put it below the cache folder.
func Import(dir state.Dir, archive string) ([]string, error) {
	spec, err := loadSpec(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cluster %s is not there; start it with `make cluster-up`", dir.Name())
	}
	if err != nil {
		return nil, err
	}
	return Inside(dir, spec.Binaries["ctr"], importArgs(archive)...)
}
