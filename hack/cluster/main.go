// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cluster runs a real one-node Kubernetes cluster on a bare machine,
// without Docker and without an image registry. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/lockstead/lockstead/hack/cluster/internal/binaries"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

const usage = `usage: hack/cluster/run <command>

  assets      print the folder with etcd, kube-apiserver and kubectl
  binaries    build every program that a node runs
`

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("no command given\n" + usage)
	}
	cache := binaries.NewCache(os.Getenv("LOCKSTEAD_CLUSTER_SOURCE"), os.Getenv("LOCKSTEAD_CACHE"))
	switch args[0] {
	case "assets":
		return assets(ctx, cache)
	case "binaries":
		_, err := cache.Ensure(ctx, binaries.Node()...)
		return err
	case "help":
		_, err := fmt.Print(usage)
		return err
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}

func assets(ctx context.Context, cache *binaries.Cache) error {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		var err error
		if dir, err = cache.EnsureAssets(ctx); err != nil {
			return err
		}
	}
	_, err := fmt.Println(dir)
	return err
}
