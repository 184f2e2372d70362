// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

// covered are the host's folders into which the components write at fixed paths;
// the node has folders of its own there.
var covered = []string{"/run", "/tmp", "/var/lib", "/var/log"}

// kernelSettings are settings of the whole machine that the kubelet insists on.
// It must not change them for a test cluster, so it is shown files of that content.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// volumesMount is where the hostPath provisioner of the controller manager puts volumes.
const volumesMount = "/tmp/hostpath_pv"

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := syscall.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s (%s, options %q) on %s: %w", source, kind, options, target, err)
	}
	return nil
}

// makeMounts turns the copy of the host's mounts into the node's own.
func makeMounts(dir state.Dir, spec Spec) error {
	// Nothing that is mounted in here may appear on the host.
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	cgroups, err := hierarchies()
	if err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mountCgroups(cgroups); err != nil {
		return err
	}
	for _, folder := range covered {
		if err := cover(folder, spec.Keep); err != nil {
			return err
		}
	}
	if err := bindVolumes(dir); err != nil {
		return err
	}
	if err := bindKernelSettings(); err != nil {
		return err
	}
	// Pods may ask to see mounts that the node makes later.
	return mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, "")
}

// cover mounts an empty folder of the node's own over a folder of the host.
// What is below keep stays visible.
func cover(folder, keep string) error {
	resolved, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return err
	}
	var kept *os.File
	if strings.HasPrefix(keep+"/", resolved+"/") {
		if kept, err = os.Open(keep); err != nil {
			return err
		}
		defer kept.Close()
	}
	if err := mount("tmpfs", resolved, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777"); err != nil {
		return err
	}
	if kept == nil {
		return nil
	}
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return err
	}
	return mount("/proc/self/fd/"+strconv.Itoa(int(kept.Fd())), keep, "", syscall.MS_BIND|syscall.MS_REC, "")
}

func bindVolumes(dir state.Dir) error {
	for _, folder := range []string{volumesMount, dir.Path("volumes")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	return mount(dir.Path("volumes"), volumesMount, "", syscall.MS_BIND, "")
}

func bindKernelSettings() error {
	for name, value := range kernelSettings {
		setting := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(setting); err != nil {
			continue
		}
		shown := filepath.Join("/run/lockstead/kernel", name)
		if err := os.MkdirAll(filepath.Dir(shown), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(shown, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := mount(shown, setting, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}
