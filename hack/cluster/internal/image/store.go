// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Store is the folder of image archives, each named after its content.
type Store struct{ dir string }

// NewStore returns the store in the cache folder.
func NewStore(cache string) Store { return Store{dir: filepath.Join(cache, "images")} }

// Put stores the image's archive and returns its file.
func (s Store) Put(i Image) (string, error) {
	var archive bytes.Buffer
	if err := i.Archive(&archive); err != nil {
		return "", err
	}
	base := strings.NewReplacer("/", "_", ":", "_").Replace(i.Name)
	file := filepath.Join(s.dir, base+"-"+digest(archive.Bytes())[len("sha256:"):][:12]+".tar")
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return "", err
	}
	staged, err := os.CreateTemp(s.dir, ".staged-")
	if err != nil {
		return "", err
	}
	defer os.Remove(staged.Name()) //nolint:errcheck // Gone after the rename.
	if _, err := staged.Write(archive.Bytes()); err != nil {
		return "", errors.Join(err, staged.Close())
	}
	if err := staged.Close(); err != nil {
		return "", err
	}
	return file, os.Rename(staged.Name(), file)
}

// Build builds an image with the project's own Dockerfile and calls use with
// its archive, which is gone afterwards. Nothing of the build is kept: a
// Dockerfile that starts from scratch has nothing to keep.
func (s Store) Build(ctx context.Context, dockerfile, folder, name string, use func(archive string) error) error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(s.dir, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // Litter in a cache at worst.
	storage := []string{
		"--root", filepath.Join(work, "root"), "--runroot", filepath.Join(work, "run"), "--storage-driver", "vfs",
	}
	archive := filepath.Join(work, "image.tar")
	build := append(storage[:len(storage):len(storage)],
		"bud", "--isolation", "chroot", "--pull-never", "--quiet", "--tag", name, "--file", dockerfile, folder)
	push := append(storage[:len(storage):len(storage)], "push", "--quiet", name, "oci-archive:"+archive+":"+name)
	for _, args := range [][]string{build, push} {
		cmd := exec.CommandContext(ctx, "buildah", args...)
		cmd.Env = append(os.Environ(), "TMPDIR="+work)
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("buildah %s: %w: %s", strings.Join(args, " "), err, output)
		}
	}
	return use(archive)
}
