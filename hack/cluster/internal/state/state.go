// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package state knows the folder that holds everything of one local cluster, and
// the process that the cluster lives and dies with.
package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// Dir is the state folder of one cluster. Nothing of a cluster is anywhere else,
// except for its control groups, which are named after the folder.
type Dir struct {
	name, root string
}

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// New returns the state of the named cluster in the cache folder.
func New(cache, name string) (Dir, error) {
	if !validName.MatchString(name) {
		return Dir{}, fmt.Errorf("cluster name %q: use 1 to 32 lower-case letters, digits and dashes", name)
	}
	root, err := filepath.Abs(filepath.Join(cache, "cluster", name))
	if err != nil {
		return Dir{}, err
	}
	return Dir{name: name, root: root}, nil
}

// Open returns the state in the folder root.
func Open(root string) Dir { return Dir{name: filepath.Base(root), root: root} }

func (d Dir) Name() string { return d.name }
func (d Dir) Root() string { return d.root }

// Path returns a path below the folder.
func (d Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.root}, elem...)...)
}

func (d Dir) Kubeconfig() string        { return d.Path("kubeconfig") }
func (d Dir) Progress() string          { return d.Path("progress") }
func (d Dir) Log(program string) string { return d.Path("logs", program+".log") }
func (d Dir) NodeName() string          { return d.name + "-node" }

// Cgroup is the name of the control group, directly below the root of every
// hierarchy, that holds all of the cluster's. Two checkouts with different
// caches may both have a cluster of the same name.
func (d Dir) Cgroup() string {
	sum := sha256.Sum256([]byte(d.root))
	return "lockstead-" + d.name + "-" + hex.EncodeToString(sum[:4])
}

// Lock keeps two commands from working on the same cluster at once.
func (d Dir) Lock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(d.root), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.root+".lock", os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		fmt.Fprintf(os.Stderr, "waiting for another command on cluster %s to end\n", d.name)
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// Exists tells whether anything of the cluster is there.
func (d Dir) Exists() bool {
	_, err := os.Stat(d.root)
	return !errors.Is(err, fs.ErrNotExist)
}
