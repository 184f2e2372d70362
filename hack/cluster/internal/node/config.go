// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"embed"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/lockstead/lockstead/hack/cluster/internal/binaries"
	"github.com/lockstead/lockstead/hack/cluster/internal/pki"
	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

//go:embed config/*
var configs embed.FS

// folders of a node, all below its state folder.
var folders = []string{"config", "cni", "logs/pods", "etcd", "containerd", "kubelet", "volumes"}

// Prepare fills the state folder with all that the node reads. The API server is
// reached from the host at the address server.
func Prepare(dir state.Dir, spec Spec, server netip.AddrPort, now time.Time) error {
	for _, folder := range folders {
		if err := os.MkdirAll(dir.Path(folder), 0o755); err != nil {
			return err
		}
	}
	if err := issue(dir, server, now); err != nil {
		return err
	}
	if err := writeConfigs(dir, spec); err != nil {
		return err
	}
	return spec.Save(dir)
}

// issue writes the certificates and the kubeconfig files.
func issue(dir state.Dir, server netip.AddrPort, now time.Time) error {
	a, err := pki.NewAuthority(dir.Path("pki"), now)
	if err != nil {
		return err
	}
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + domain}
	ips := []net.IP{net.IPv4(127, 0, 0, 1), nodeNet.Addr().AsSlice(), serviceNet.Addr().Next().AsSlice()}
	if err := a.Serving("apiserver", names, ips); err != nil {
		return err
	}
	if err := a.Serving("kubelet", []string{dir.NodeName()}, ips[:2]); err != nil {
		return err
	}
	if err := a.SigningKey("service-accounts"); err != nil {
		return err
	}
	const masters = "system:masters"
	if err := a.Client("kubelet-client", kubeletClientUser, masters); err != nil {
		return err
	}
	if err := a.Client(adminUser, adminUser, masters); err != nil {
		return err
	}
	if err := a.Kubeconfig(dir.Kubeconfig(), dir.Name(), "https://"+server.String(), adminUser, masters); err != nil {
		return err
	}
	inside := "https://" + net.JoinHostPort(nodeNet.Addr().String(), apiServerPort)
	for _, c := range []struct {
		component, user string
		groups          []string
	}{
		{adminUser, adminUser, []string{masters}},
		{binaries.ControllerManager, controllerManagerUser, nil},
		{binaries.Scheduler, schedulerUser, nil},
		{binaries.KubeProxy, kubeProxyUser, nil},
		{binaries.CoreDNS, coreDNSUser, nil},
		{binaries.Kubelet, "system:node:" + dir.NodeName(), []string{"system:nodes"}},
	} {
		file := dir.Path("config", c.component+".kubeconfig")
		if err := a.Kubeconfig(file, dir.Name(), inside, c.user, c.groups...); err != nil {
			return err
		}
	}
	return nil
}

// writeConfigs fills in the embedded configuration files.
func writeConfigs(dir state.Dir, spec Spec) error {
	snapshotter, err := pickSnapshotter(dir.Path("containerd"))
	if err != nil {
		return err
	}
	values := map[string]string{
		"BridgeName":     bridgeName,
		"BridgeAddress":  bridgeNet.Addr().String(),
		"CNI":            spec.CNI,
		"CNIConfig":      dir.Path("config", "cni"),
		"CoreDNSUser":    coreDNSUser,
		"Domain":         domain,
		"Pause":          spec.Pause,
		"PodNet":         bridgeNet.Masked().String(),
		"PodLogs":        dir.Path("logs", "pods"),
		"Snapshotter":    snapshotter,
		"Socket":         containerdSocket,
		"Containerd":     dir.Path("containerd"),
		"Leases":         dir.Path("cni"),
		"Authority":      dir.Path("pki", "ca.crt"),
		"KubeletCert":    dir.Path("pki", "kubelet.crt"),
		"KubeletKey":     dir.Path("pki", "kubelet.key"),
		"Kubelet":        dir.Path("kubelet"),
		"Resolver":       dir.Path("config", "resolv.conf"),
		"CoreDNSConfig":  dir.Path("config", binaries.CoreDNS+".kubeconfig"),
		"KubeProxyUser":  kubeProxyUser,
		"ServiceNetwork": serviceNet.String(),
	}
	all, err := template.New("").Option("missingkey=error").ParseFS(configs, "config/*")
	if err != nil {
		return err
	}
	for _, t := range all.Templates() {
		if t.Name() == "" {
			continue
		}
		var content bytes.Buffer
		if err := t.Execute(&content, values); err != nil {
			return err
		}
		file := dir.Path("config", t.Name())
		if strings.HasSuffix(file, ".conflist") {
			file = filepath.Join(dir.Path("config", "cni"), t.Name())
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(file, content.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pickSnapshotter avoids overlayfs on top of overlayfs, which the kernel refuses
// and which is what the state folder is on when all of this runs in a container.
func pickSnapshotter(folder string) (string, error) {
	const overlay = 0x794c7630
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return "", err
	}
	if s.Type == overlay {
		return "native", nil
	}
	return "overlayfs", nil
}
