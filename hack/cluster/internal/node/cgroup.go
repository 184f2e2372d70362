// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// hierarchy is one mounted cgroup hierarchy: version 1 has several, each with
// its controllers or a name, version 2 has one.
type hierarchy struct {
	mount   string
	v2      bool
	options string
}

// parseHierarchies reads the cgroup hierarchies out of the lines of
// /proc/self/mountinfo. On a hybrid machine, where version 1 has the
// controllers, the version 2 hierarchy is left out: nothing of ours needs it.
func parseHierarchies(mountinfo string) []hierarchy {
	var v1, v2 []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, found := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !found || len(left) < 5 || len(right) < 3 {
			continue
		}
		switch right[0] {
		case "cgroup2":
			v2 = append(v2, hierarchy{mount: left[4], v2: true})
		case "cgroup":
			options := strings.Split(right[2], ",")
			options = slices.DeleteFunc(options, func(o string) bool {
				return o == "rw" || o == "ro" || strings.HasPrefix(o, "release_agent=")
			})
			if slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "name=") }) {
				options = append([]string{"none"}, options...)
			}
			v1 = append(v1, hierarchy{mount: left[4], options: strings.Join(options, ",")})
		}
	}
	if len(v1) > 0 {
		return v1
	}
	return v2
}

func hierarchies() ([]hierarchy, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	found := parseHierarchies(string(content))
	if len(found) == 0 {
		return nil, errors.New("no cgroup hierarchy is mounted; mount one at /sys/fs/cgroup")
	}
	return found, nil
}

// joinCgroup moves the process into the group of that name in every hierarchy.
func joinCgroup(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		group := filepath.Join(h.mount, name)
		if h.v2 {
			if err := handDown(h.mount); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		if !h.v2 {
			if err := inheritCPUSet(h.mount, group); err != nil {
				return err
			}
		}
		// 0 is the writer itself, whatever its number is in whichever namespace.
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("move into %s: %w", group, err)
		}
	}
	return nil
}

// inheritCPUSet fills in what a new version 1 cpuset starts without: no process
// may join it before.
func inheritCPUSet(parent, group string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		own := filepath.Join(group, file)
		value, err := os.ReadFile(own)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(value)) != "" {
			continue
		}
		inherited, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(own, inherited, 0); err != nil {
			return err
		}
	}
	return nil
}

// mountCgroups gives the node a view of the hierarchies in which its own group
// is the root. It expects an empty /sys/fs/cgroup.
func mountCgroups(all []hierarchy) error {
	const root = "/sys/fs/cgroup"
	if all[0].v2 {
		if err := mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
			return err
		}
		return delegateControllers(root)
	}
	if err := mount("tmpfs", root, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, h := range all {
		if err := os.MkdirAll(h.mount, 0o755); err != nil {
			return err
		}
		if err := mount("cgroup", h.mount, "cgroup", 0, h.options); err != nil {
			return err
		}
		// cpu and cpuacct, mounted together, are found under either name.
		controllers := strings.Split(filepath.Base(h.mount), ",")
		for _, c := range controllers {
			if len(controllers) == 1 {
				break
			}
			if err := os.Symlink(filepath.Base(h.mount), filepath.Join(filepath.Dir(h.mount), c)); err != nil {
				return err
			}
		}
	}
	return nil
}

// delegateControllers makes a version 2 group ready for children: its own
// processes move into a leaf, since a group that hands controllers down may hold none.
func delegateControllers(root string) error {
	leaf := filepath.Join(root, "init")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return err
	}
	processes, err := os.ReadFile(filepath.Join(root, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, pid := range strings.Fields(string(processes)) {
		if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(pid), 0); err != nil {
			return fmt.Errorf("move process %s into %s: %w", pid, leaf, err)
		}
	}
	return handDown(root)
}

// handDown lets the children of a version 2 group use all controllers that it has.
func handDown(group string) error {
	controllers, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("hand the %s controller down from %s: %w", c, group, err)
		}
	}
	return nil
}

// removeCgroup removes the group of that name and all below it from every
// hierarchy. A group whose last process has just died may be busy for a moment.
func removeCgroup(ctx context.Context, name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		group := filepath.Join(h.mount, name)
		if err := poll(ctx, 20*time.Millisecond, func() (bool, error) {
			err := removeTree(group)
			if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOTEMPTY) {
				return false, nil
			}
			return true, err
		}); err != nil {
			return fmt.Errorf("remove control group %s: %w", group, err)
		}
	}
	return nil
}

// removeTree removes a group from the leaves up. The files in a group are the
// kernel's and go with it.
func removeTree(group string) error {
	entries, err := os.ReadDir(group)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(group, e.Name())); err != nil {
				return err
			}
		}
	}
	err = syscall.Rmdir(group)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
