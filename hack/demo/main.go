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
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, configFromEnvironment(os.Getenv)); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}

// run does the demo and takes down what it brought up, also when it failed.
func run(ctx context.Context, config config) (err error) {
	started := time.Now()
	out := newConsole(os.Stdout)

	out.step("bringing up the cluster")
	kubeconfig, err := clusterUp(ctx, config)
	defer func() {
		if !config.keep {
			out.step("taking everything down (KEEP=1 leaves it running)")
		}
		err = errors.Join(err, clusterDown(context.WithoutCancel(ctx), config, kubeconfig))
		if err == nil {
			out.step("done in %.0f s", time.Since(started).Seconds())
			out.results()
		}
	}()
	if err != nil {
		return err
	}
	kube, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	for _, p := range phases(config) {
		result, err := p.run(ctx, kube, config, out)
		if err != nil {
			p.explain(context.WithoutCancel(ctx), out)
			return fmt.Errorf("backend %s: %w", p.backend, err)
		}
		out.result(result)
	}
	return nil
}

// config is what the environment says.
type config struct {
	// existing: the cluster is the user's, at KUBECONFIG; its nodes must be able to pull the images.
	existing bool
	// keep leaves the cluster, or in an existing one the release and the namespaces, for a look around.
	keep bool
	// registry and tag name the images.
	registry, tag string
}

func configFromEnvironment(getenv func(string) string) config {
	fallback := func(name, value string) string {
		if given := getenv(name); given != "" {
			return given
		}
		return value
	}
	return config{
		existing: getenv("CLUSTER") == "existing",
		keep:     !strings.Contains("|0|false|no|", "|"+strings.ToLower(fallback("KEEP", "0"))+"|"),
		registry: fallback("IMAGE_REGISTRY", "localhost"),
		tag:      fallback("IMAGE_TAG", "dev"),
	}
}
