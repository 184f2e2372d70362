// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

func TestParseHierarchies(t *testing.T) {
	const (
		root    = "25 1 0:23 / / rw - ext4 /dev/vda rw\n"
		cpu     = "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
		systemd = "32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup systemd rw,xattr,release_agent=/x,name=systemd\n"
		unified = "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		only    = "34 30 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
	)
	for name, test := range map[string]struct {
		mountinfo string
		want      []hierarchy
	}{
		"version 1": {root + cpu + systemd, []hierarchy{
			{mount: "/sys/fs/cgroup/cpu,cpuacct", options: "cpu,cpuacct"},
			{mount: "/sys/fs/cgroup/systemd", options: "none,xattr,name=systemd"},
		}},
		"hybrid has the controllers in version 1": {cpu + unified, []hierarchy{
			{mount: "/sys/fs/cgroup/cpu,cpuacct", options: "cpu,cpuacct"},
		}},
		"version 2":  {root + only, []hierarchy{{mount: "/sys/fs/cgroup", v2: true}}},
		"none":       {root, nil},
		"unreadable": {"x\ny - z\n\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseHierarchies(test.mountinfo); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestParseProgress(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		want    Status
	}{
		"empty":              {"", Status{}},
		"steps":              {"a\nb\n", Status{Steps: []string{"a", "b"}}},
		"a half-written one": {"a\nrea", Status{Steps: []string{"a"}}},
		"ready":              {"a\nready\n", Status{Steps: []string{"a"}, Ready: true}},
		"failed":             {"failed: no luck\n", Status{Failed: "no luck"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseProgress(test.content); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestIsReady(t *testing.T) {
	const condition = `"status":{"conditions":[{"type":"DiskPressure","status":"False"},{"type":"Ready","status":"True"}]}`
	for node, want := range map[string]bool{
		`{` + condition + `}`: true,
		`{"spec":{"taints":[{"key":"not-ready"}]},` + condition + `}`:   false,
		`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`: false,
		`{}`:       false,
		`not JSON`: false,
	} {
		if got := isReady([]byte(node)); got != want {
			t.Errorf("isReady(%s) = %v", node, got)
		}
	}
}

func TestEventNames(t *testing.T) {
	var buffer bytes.Buffer
	for _, name := range []string{"pvc-1\x00\x00\x00", "", "pvc-22\x00\x00"} {
		event := syscall.InotifyEvent{Wd: 1, Mask: syscall.IN_CREATE, Len: uint32(len(name))}
		if err := binary.Write(&buffer, binary.NativeEndian, event); err != nil {
			t.Fatal(err)
		}
		buffer.WriteString(name)
	}
	whole := buffer.Bytes()
	if got, want := eventNames(whole), []string{"pvc-1", "pvc-22"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := eventNames(whole[:len(whole)-1]), []string{"pvc-1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("of a cut-off buffer: got %q, want %q", got, want)
	}
}

func TestPrepareWritesCompleteFiles(t *testing.T) {
	dir := state.Open(filepath.Join(t.TempDir(), "test"))
	spec := Spec{Program: "/p", CNI: "/cni/plugins", Pause: "pause:1", Binaries: map[string]string{"etcd": "/etcd"}}
	if err := Prepare(dir, spec, netip.MustParseAddrPort("127.0.0.1:1234"), time.Now()); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		dir.Kubeconfig():                                `"server": "https://127.0.0.1:1234"`,
		dir.Path("config", "kubelet.kubeconfig"):        `"server": "https://10.213.0.2:6443"`,
		dir.Path("config", "cni", "10-bridge.conflist"): `"subnet": "10.244.0.0/24"`,
		dir.Path("config", "containerd.toml"):           `bin_dirs = ["/cni/plugins"]`,
		dir.Path("config", "Corefile"):                  "kubeconfig " + dir.Path("config", "coredns.kubeconfig"),
		dir.Path("config", "addons.yaml"):               "kind: StorageClass",
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(content), want) {
			t.Errorf("%s lacks %s:\n%s", file, want, content)
		}
	}
	if info, err := os.Stat(dir.Kubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig has mode %v, %v; its key is for its owner alone", info.Mode(), err)
	}
	if !spec.Saved(dir) {
		t.Error("the saved spec is said to be another one")
	}
	spec.Program = "/newer"
	if spec.Saved(dir) {
		t.Error("a changed spec is said to be the saved one")
	}
}

func TestStopOfNothing(t *testing.T) {
	dir := state.Open(filepath.Join(t.TempDir(), "never-started"))
	if err := Stop(t.Context(), dir); err != nil {
		t.Error(err)
	}
}
