// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows the whole product at work on a real cluster: it installs the operator with Helm, lets three replicas of the example
// worker compete for locks, kills one that holds some, and judges from the logs of all replicas that no two sections of a key
// overlapped and that the fencing tokens grew. It does so for each backend in turn. Run it with `make demo`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockstead/lockstead/internal/testcluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root, err := os.Getwd()
	if err == nil {
		err = run(ctx, testcluster.ConfigFromEnvironment(root, os.Getenv))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}

// run does the demo and takes down what it brought up, also when it failed.
func run(ctx context.Context, config testcluster.Config) (err error) {
	started := time.Now()
	out := newConsole(os.Stdout)

	out.step("bringing up the cluster")
	cluster, err := testcluster.Up(ctx, config)
	defer func() {
		if !config.Keep {
			out.step("taking everything down (KEEP=1 leaves it running)")
		}
		var namespaces []string
		for _, p := range phases() {
			namespaces = append(namespaces, p.namespace)
		}
		err = errors.Join(err, cluster.Down(context.WithoutCancel(ctx), namespaces...))
		if err == nil {
			out.step("done in %.0f s", time.Since(started).Seconds())
			out.results()
		}
	}()
	if err != nil {
		return err
	}
	for _, p := range phases() {
		result, err := p.run(ctx, cluster, out)
		if err != nil {
			cluster.Explain(context.WithoutCancel(ctx), p.namespace, func(text string) { out.step("%s", text) })
			return fmt.Errorf("backend %s: %w", p.backend, err)
		}
		out.result(result)
	}
	return nil
}
