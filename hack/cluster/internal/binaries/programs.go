// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binaries builds the programs of the local cluster from their Go
// modules and keeps them in a cache outside the work tree.
//
// Each group has a go.mod of its own under hack/cluster, which pins the version
// (go.sum holds the checksums): the programs' dependencies disagree. A group's
// folder in the cache is named after that version and a hash of everything that
// decides what is built, so a program found there is never built again.
package binaries

import "time"

// Group is a set of programs that one Go module pins.
type Group struct {
	// Name is the folder under hack/cluster that holds the group's go.mod.
	Name string
	// Module is the module whose version names the group's folder in the cache.
	Module string
	// Tags are Go build tags.
	Tags []string
	// Stamp lists variables that are set when linking. In their values, {version}
	// stands for the module's version, {major} and {minor} for parts of it.
	Stamp []string
	// Programs are built in this order.
	Programs []Program
}

// Program is one binary.
type Program struct {
	Name string
	// Package is the main package, relative to the group's module.
	Package string
	// Cold is about how long the build takes on two cores with an empty Go build
	// cache, after the programs that stand before it.
	Cold time.Duration
}

// Names of the programs that other packages start.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubelet           = "kubelet"
	KubeProxy         = "kube-proxy"
	Kubectl           = "kubectl"
	Containerd        = "containerd"
	Shim              = "containerd-shim-runc-v2"
	Ctr               = "ctr"
	CoreDNS           = "coredns"
)

// groups lists every program that can be built here. Kubernetes comes before
// the others because it takes longest.
func groups() []Group {
	return []Group{
		{
			Name:   "kubernetes",
			Module: "k8s.io/kubernetes",
			// Without these the version reads v0.0.0, and clients complain.
			Stamp: []string{
				"k8s.io/component-base/version.gitVersion={version}",
				"k8s.io/component-base/version.gitMajor={major}",
				"k8s.io/component-base/version.gitMinor={minor}",
			},
			Programs: []Program{
				{APIServer, "k8s.io/kubernetes/cmd/kube-apiserver", 6 * time.Minute},
				{Kubectl, "k8s.io/kubernetes/cmd/kubectl", 25 * time.Second},
				{ControllerManager, "k8s.io/kubernetes/cmd/kube-controller-manager", 105 * time.Second},
				{Kubelet, "k8s.io/kubernetes/cmd/kubelet", 38 * time.Second},
				{Scheduler, "k8s.io/kubernetes/cmd/kube-scheduler", 11 * time.Second},
				{KubeProxy, "k8s.io/kubernetes/cmd/kube-proxy", 13 * time.Second},
			},
		},
		{
			Name:     "etcd",
			Module:   "go.etcd.io/etcd/server/v3",
			Programs: []Program{{Etcd, "go.etcd.io/etcd/server/v3", 90 * time.Second}},
		},
		{
			Name:   "containerd",
			Module: "github.com/containerd/containerd/v2",
			Tags:   []string{"no_btrfs", "no_devmapper", "no_zfs"},
			Stamp:  []string{"github.com/containerd/containerd/v2/version.Version={version}"},
			Programs: []Program{
				{Containerd, "github.com/containerd/containerd/v2/cmd/containerd", 80 * time.Second},
				{Shim, "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", 20 * time.Second},
				{Ctr, "github.com/containerd/containerd/v2/cmd/ctr", 20 * time.Second},
			},
		},
		{
			Name:     "coredns",
			Module:   "github.com/coredns/coredns",
			Programs: []Program{{CoreDNS, ".", 60 * time.Second}},
		},
	}
}

// Node are the programs that a whole node runs.
func Node() []string {
	return []string{
		APIServer, Kubectl, ControllerManager, Kubelet, Scheduler, KubeProxy, Etcd, Containerd, Shim, Ctr, CoreDNS,
	}
}

// Assets are the programs that a test of the API alone needs.
func Assets() []string { return []string{APIServer, Kubectl, Etcd} }
