// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/lockstead/lockstead/hack/cluster/internal/binaries"
	"github.com/lockstead/lockstead/hack/cluster/internal/image"
	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

// tool is what the commands work with.
type tool struct {
	cache    string
	programs *binaries.Cache
	images   image.Store
	dir      state.Dir
	// existing is set when the cluster is the user's own.
	existing bool
}

const defaultName = "lockstead"

func newTool() (*tool, error) {
	cache, source := os.Getenv("LOCKSTEAD_CACHE"), os.Getenv("LOCKSTEAD_CLUSTER_SOURCE")
	if cache == "" || source == "" {
		return nil, errors.New("run this program as hack/cluster/run, which builds it and tells it where things are")
	}
	name := os.Getenv("LOCKSTEAD_CLUSTER")
	if name == "" {
		name = defaultName
	}
	dir, err := state.New(cache, name)
	if err != nil {
		return nil, err
	}
	t := &tool{
		cache:    cache,
		programs: binaries.NewCache(source, cache),
		images:   image.NewStore(cache),
		dir:      dir,
	}
	switch c := os.Getenv("CLUSTER"); c {
	case "", "local":
	case "existing":
		t.existing = true
	default:
		return nil, fmt.Errorf("CLUSTER=%s: set it to existing to use a cluster that you have, or leave it unset", c)
	}
	return t, nil
}

func (t *tool) assets(ctx context.Context) error {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		var err error
		if dir, err = t.programs.EnsureAssets(ctx); err != nil {
			return err
		}
	}
	_, err := fmt.Println(dir)
	return err
}

func (t *tool) binaries(ctx context.Context) error {
	_, err := t.programs.Ensure(ctx, binaries.Node()...)
	return err
}

// kubeconfig is empty for a user's own cluster that is not named by KUBECONFIG.
func (t *tool) kubeconfig() string {
	if t.existing {
		return os.Getenv("KUBECONFIG")
	}
	return t.dir.Kubeconfig()
}

// kubectl runs kubectl in the place of this program: the user's own against the
// user's own cluster, otherwise the one of the cluster's version.
func (t *tool) kubectl(ctx context.Context, args []string) error {
	program, environment, err := t.kubectlCommand(ctx)
	if err != nil {
		return err
	}
	if err := syscall.Exec(program, append([]string{binaries.Kubectl}, args...), environment); err != nil {
		return fmt.Errorf("execute %s: %w", program, err)
	}
	return nil
}

func (t *tool) kubectlCommand(ctx context.Context) (program string, environment []string, err error) {
	if t.existing {
		if program, err = exec.LookPath(binaries.Kubectl); err == nil {
			return program, os.Environ(), nil
		}
	} else {
		if !t.dir.Exists() {
			return "", nil, fmt.Errorf("cluster %s is not there; start it with `make cluster-up`", t.dir.Name())
		}
		// In the place of a value that the caller may have set: of two, many
		// programs take the first.
		if err := os.Setenv("KUBECONFIG", t.dir.Kubeconfig()); err != nil {
			return "", nil, err
		}
	}
	built, err := t.programs.Ensure(ctx, binaries.Kubectl)
	return built[binaries.Kubectl], os.Environ(), err
}
