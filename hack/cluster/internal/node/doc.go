// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node runs a whole Kubernetes node inside namespaces of its own.
//
// The first process of a node is process 1 of a new PID namespace, in new mount,
// network, UTS and IPC namespaces and, as soon as it has moved into a control
// group of its own, in a new cgroup namespace. Everything that a node makes,
// processes, mounts, network devices, firewall rules, is made in there, so the
// kernel takes all of it away when that one process ends, however it ends. What
// is left are empty control groups, which Stop removes, and the state folder.
//
// The host reaches the API server through a loopback port: the listener is
// opened outside and handed in. So the host's network is not touched at all,
// and no address can collide with one of the host's.
//
// Three processes start one after the other, all of them this program:
//
//   - Enter waits until its parent has recorded it, moves into the control group
//     and executes Init in its place;
//   - Init, the process 1, starts Run and reaps orphans;
//   - Run makes the node's mounts and network, then starts and supervises the
//     components.
package node

import "net/netip"

// Addresses of the node. They exist only in its own network namespace.
var (
	nodeNet    = netip.MustParsePrefix("10.213.0.2/24")
	bridgeNet  = netip.MustParsePrefix("10.244.0.1/24")
	serviceNet = netip.MustParsePrefix("10.96.0.0/16")
)

const (
	bridgeName = "cni0"
	// apiServerPort is the port in the node's namespace.
	apiServerPort = "6443"
	domain        = "cluster.local"
)

// Descriptors that Start hands to the node's first process.
const (
	gateFD     = 3
	listenerFD = 4
)

// Names of the hidden commands of this program that run inside the node.
const (
	EnterCommand = "node-enter"
	InitCommand  = "node-init"
	RunCommand   = "node-run"
)
