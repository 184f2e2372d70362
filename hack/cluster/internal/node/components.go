// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/lockstead/lockstead/hack/cluster/internal/binaries"
	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

// component is one long-running program of the node.
type component struct {
	name string
	args []string
}

const (
	containerdSocket = "/run/containerd/containerd.sock"
	etcdClient       = "http://127.0.0.1:2379"
	serviceIssuer    = "https://kubernetes.default.svc." + domain
)

// Users of the API server, each with a kubeconfig of its own.
const (
	adminUser             = "admin"
	controllerManagerUser = "system:kube-controller-manager"
	schedulerUser         = "system:kube-scheduler"
	kubeProxyUser         = "system:kube-proxy"
	coreDNSUser           = "system:coredns"
	kubeletClientUser     = "kube-apiserver-kubelet-client"
)

func etcd(dir state.Dir) component {
	return component{binaries.Etcd, []string{
		"--name=" + dir.NodeName(),
		"--data-dir=" + dir.Path("etcd"),
		"--listen-client-urls=" + etcdClient,
		"--advertise-client-urls=" + etcdClient,
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=" + dir.NodeName() + "=http://127.0.0.1:2380",
		// The cluster is thrown away with its machine's power.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}}
}

func apiServer(dir state.Dir) component {
	pki := func(file string) string { return dir.Path("pki", file) }
	return component{binaries.APIServer, []string{
		"--etcd-servers=" + etcdClient,
		"--secure-port=" + apiServerPort,
		"--advertise-address=" + nodeNet.Addr().String(),
		"--service-cluster-ip-range=" + serviceNet.String(),
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--client-ca-file=" + pki("ca.crt"),
		"--tls-cert-file=" + pki("apiserver.crt"),
		"--tls-private-key-file=" + pki("apiserver.key"),
		"--service-account-issuer=" + serviceIssuer,
		"--service-account-key-file=" + pki("service-accounts.pub"),
		"--service-account-signing-key-file=" + pki("service-accounts.key"),
		"--kubelet-certificate-authority=" + pki("ca.crt"),
		"--kubelet-client-certificate=" + pki("kubelet-client.crt"),
		"--kubelet-client-key=" + pki("kubelet-client.key"),
		// Otherwise logs and exec look up the node's name.
		"--kubelet-preferred-address-types=InternalIP",
	}}
}

func controllerManager(dir state.Dir) component {
	kubeconfig := dir.Path("config", binaries.ControllerManager+".kubeconfig")
	return component{binaries.ControllerManager, []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--authentication-skip-lookup=true",
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		// Every controller asks for its own credentials first; at the default rate
		// that takes longer than everything else.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + dir.Path("pki", "service-accounts.key"),
		"--root-ca-file=" + dir.Path("pki", "ca.crt"),
		// There is one node, and its pod network is fixed.
		"--allocate-node-cidrs=false",
		"--enable-hostpath-provisioner=true",
	}}
}

func scheduler(dir state.Dir) component {
	kubeconfig := dir.Path("config", binaries.Scheduler+".kubeconfig")
	return component{binaries.Scheduler, []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--authentication-skip-lookup=true",
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
	}}
}

func containerd(dir state.Dir) component {
	return component{binaries.Containerd, []string{"--config=" + dir.Path("config", "containerd.toml")}}
}

func kubelet(dir state.Dir) component {
	return component{binaries.Kubelet, []string{
		"--config=" + dir.Path("config", "kubelet.yaml"),
		"--kubeconfig=" + dir.Path("config", binaries.Kubelet+".kubeconfig"),
		"--root-dir=" + dir.Path("kubelet"),
		"--hostname-override=" + dir.NodeName(),
		"--node-ip=" + nodeNet.Addr().String(),
	}}
}

func kubeProxy(dir state.Dir) component {
	return component{binaries.KubeProxy, []string{
		"--kubeconfig=" + dir.Path("config", binaries.KubeProxy+".kubeconfig"),
		"--hostname-override=" + dir.NodeName(),
		"--proxy-mode=iptables",
		"--cluster-cidr=" + bridgeNet.Masked().String(),
		"--iptables-min-sync-period=100ms",
		// The tables of the whole machine are not ours to size.
		"--conntrack-max-per-core=0",
		"--conntrack-tcp-timeout-established=0",
		"--conntrack-tcp-timeout-close-wait=0",
		"--oom-score-adj=0",
	}}
}

func coreDNS(dir state.Dir) component {
	return component{binaries.CoreDNS, []string{"-conf", dir.Path("config", "Corefile")}}
}
