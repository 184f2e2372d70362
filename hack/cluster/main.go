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

	"github.com/lockstead/lockstead/hack/cluster/internal/node"
	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

const usage = `usage: hack/cluster/run <command>

  up                     start the cluster, or say that it runs
  down                   stop the cluster and remove all of it
  status                 say whether the cluster runs
  kubeconfig             print the file with which to reach the cluster
  kubectl ARGS...        run kubectl against the cluster
  image build-load DOCKERFILE FOLDER NAME:TAG
                         build an image and load it into the cluster
  image load ARCHIVE     load an OCI or docker archive into the cluster
  image redis            print the name of the cluster's Redis image
  assets                 print the folder with etcd, kube-apiserver and kubectl
  binaries               build every program that a node runs

The environment:

  CLUSTER=existing       use the cluster of KUBECONFIG or of the current context
  LOAD_IMAGE_CMD         how to load an image there: a shell command that finds
                         the image's name in $IMAGE and its archive in $ARCHIVE
  LOCKSTEAD_CLUSTER      name of the local cluster; defaults to lockstead
  LOCKSTEAD_CACHE        folder for programs, images and clusters; defaults to
                         lockstead in $XDG_CACHE_HOME or ~/.cache
  KUBEBUILDER_ASSETS     what assets prints, if set
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("no command given\n" + usage)
	}
	command, args := args[0], args[1:]
	switch command {
	case "help":
		_, err := fmt.Print(usage)
		return err
	case node.EnterCommand, node.InitCommand, node.RunCommand, pauseCommand:
		return runInside(ctx, command, args)
	}
	t, err := newTool()
	if err != nil {
		return err
	}
	switch command {
	case "up":
		return t.up(ctx)
	case "down":
		return t.down(ctx)
	case "status":
		return t.status(ctx)
	case "kubeconfig":
		_, err := fmt.Println(t.kubeconfig())
		return err
	case "kubectl":
		return t.kubectl(ctx, args)
	case "image":
		return t.image(ctx, args)
	case "assets":
		return t.assets(ctx)
	case "binaries":
		return t.binaries(ctx)
	}
	return fmt.Errorf("unknown command %q\n%s", command, usage)
}

const pauseCommand = "pause"

// runInside runs the parts of the program that are processes of a node.
func runInside(ctx context.Context, command string, args []string) error {
	if command == pauseCommand {
		<-ctx.Done()
		return nil
	}
	if len(args) != 1 {
		return fmt.Errorf("%s: want the state folder", command)
	}
	dir := state.Open(args[0])
	switch command {
	case node.EnterCommand:
		return node.Enter(dir)
	case node.InitCommand:
		return node.Init(dir)
	default:
		return node.Run(ctx, dir)
	}
}
