// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// PortForward makes a port of a pod or Service reachable at the loopback address that it returns, until stop is called or ctx ends.
func (c *Cluster) PortForward(ctx context.Context, namespace, target string, port int) (address string, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := c.command(ctx, clusterProgram, "kubectl", "--namespace", namespace, "port-forward", target, fmt.Sprintf(":%d", port))
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return "", nil, fmt.Errorf("port-forward to %s: %w", target, err)
	}
	stop = func() {
		cancel()
		_ = cmd.Wait()
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if after, found := strings.CutPrefix(lines.Text(), "Forwarding from "); found {
			address, _, _ = strings.Cut(after, " ")
			// What kubectl says later would otherwise fill the pipe and stop it.
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return address, stop, nil
		}
	}
	stop()
	return "", nil, fmt.Errorf("port-forward to %s ended without an address", target)
}
