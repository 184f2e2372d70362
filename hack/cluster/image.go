// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lockstead/lockstead/hack/cluster/internal/debian"
	"github.com/lockstead/lockstead/hack/cluster/internal/image"
	"github.com/lockstead/lockstead/hack/cluster/internal/node"
)

func (t *tool) image(ctx context.Context, args []string) error {
	switch {
	case len(args) == 4 && args[0] == "build-load":
		return t.buildLoad(ctx, args[1], args[2], args[3])
	case len(args) == 2 && args[0] == "load":
		return t.loadArchive(ctx, args[1])
	case len(args) == 1 && args[0] == "redis":
		return t.redisName(ctx)
	}
	return errors.New("unknown image command\n" + usage)
}

func (t *tool) redisName(ctx context.Context) error {
	if err := debian.Ensure(ctx, debian.Node()); err != nil {
		return err
	}
	redis, err := image.Redis(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Println(redis.Name)
	return err
}

func (t *tool) buildLoad(ctx context.Context, dockerfile, folder, name string) error {
	full, err := image.FullName(name)
	if err != nil {
		return err
	}
	command := os.Getenv("LOAD_IMAGE_CMD")
	if t.existing && command == "" {
		fmt.Fprintf(os.Stderr, "image %s is not loaded: see to it that the existing cluster can pull it, or set LOAD_IMAGE_CMD\n", name)
		return nil
	}
	if err := debian.Ensure(ctx, debian.Build()); err != nil {
		return err
	}
	return t.images.Build(ctx, dockerfile, folder, full, func(archive string) error {
		if t.existing {
			cmd := exec.CommandContext(ctx, "sh", "-c", command)
			cmd.Env = append(os.Environ(), "IMAGE="+full, "ARCHIVE="+archive)
			return passOn(cmd)
		}
		return t.importArchive(ctx, archive)
	})
}

// loadArchive copies the archive to where the node can see it.
func (t *tool) loadArchive(ctx context.Context, archive string) error {
	if t.existing {
		return errors.New("image load works on the local cluster only; use image build-load with LOAD_IMAGE_CMD")
	}
	from, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer from.Close()
	visible, err := os.CreateTemp(t.dir.Root(), "import-*.tar")
	if err != nil {
		return fmt.Errorf("cluster %s is not there; start it with `make cluster-up`: %w", t.dir.Name(), err)
	}
	defer os.Remove(visible.Name()) //nolint:errcheck // The whole folder goes with the cluster.
	_, err = io.Copy(visible, from)
	if err := errors.Join(err, visible.Close()); err != nil {
		return err
	}
	return t.importArchive(ctx, visible.Name())
}

func (t *tool) importArchive(ctx context.Context, archive string) error {
	path, err := filepath.Abs(archive)
	if err != nil {
		return err
	}
	line, err := node.Import(t.dir, path)
	if err != nil {
		return err
	}
	// What the import says matters only when it fails: it warns of things that nobody here can change.
	messages, err := exec.CommandContext(ctx, line[0], line[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(line, " "), err, messages)
	}
	return nil
}

// passOn runs the command with its output on standard error.
func passOn(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}
