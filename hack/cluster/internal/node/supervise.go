// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

// restartDelay is how long an ended component stays down. Some end by
// themselves when what they need is not up yet.
const restartDelay = 500 * time.Millisecond

// supervisor keeps components running until its context ends.
type supervisor struct {
	dir  state.Dir
	spec Spec
}

// start runs the component for ever; its output goes to its log.
func (s supervisor) start(ctx context.Context, c component) error {
	log, err := os.OpenFile(s.dir.Log(c.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	go func() {
		defer log.Close()
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, s.spec.Binaries[c.name], c.args...)
			cmd.Stdout, cmd.Stderr = log, log
			err := cmd.Run()
			fmt.Fprintf(log, "%s lockstead: %s ended: %v\n", time.Now().Format(time.RFC3339), c.name, err)
			select {
			case <-ctx.Done():
			case <-time.After(restartDelay):
			}
		}
	}()
	return nil
}

// poll calls done at once and then at the interval, until it says so or fails,
// or until the context ends.
func poll(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
