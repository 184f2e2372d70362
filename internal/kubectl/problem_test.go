// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"net"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func TestCommandLinesThatCannotWork(t *testing.T) {
	config := kubeconfig(t, "default")
	for want, args := range map[string][]string{
		`unknown command "lokcs"`:              {"lokcs"},
		"unknown flag: --colour":               {"locks", "--colour"},
		"accepts at most 1 arg(s)":             {"locks", "a", "b"},
		`no output format "xml"`:               {"locks", "-o", "xml"},
		`no output format "name": choose json`: {"status", "-o", "name"},
		"exclude each other":                   {"locks", "a", "-A"},
	} {
		wantProblem(t, say(t, config, "", args...), ExitUsage, want)
	}
}

func TestKubeconfigsThatCannotWork(t *testing.T) {
	second := func(c *clientcmdapi.Config) { c.Contexts["other"] = c.Contexts["test"].DeepCopy() }
	none := func(c *clientcmdapi.Config) { c.CurrentContext = "" }
	wantProblem(t, say(t, kubeconfig(t, "default", second, none), "", "status"), ExitFailure, "no current context: choose one of other, test with --context")
	wantProblem(t, say(t, kubeconfig(t, "default", second), "", "status", "--context", "production"), ExitFailure, `no context "production": choose one of other, test`)
	wantProblem(t, say(t, kubeconfig(t, "default", func(c *clientcmdapi.Config) { c.CurrentContext = "gone" }), "", "locks"), ExitFailure, `"gone" is not in the kubeconfig: choose one of test`)
	wantProblem(t, say(t, "/does/not/exist", "", "locks"), ExitFailure, "there is no kubeconfig /does/not/exist")
	wantDone(t, say(t, kubeconfig(t, "default", second, none), "", "status", "--context", "other"))
	t.Setenv("KUBECONFIG", "/does/not/exist")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	wantProblem(t, say(t, "", "", "locks"), ExitFailure, "no kubeconfig that names a cluster: set KUBECONFIG")
}

func TestAClusterWithoutTheOperator(t *testing.T) {
	bare := &envtest.Environment{BinaryAssetsDirectory: assets(t)}
	config, err := bare.Start()
	t.Cleanup(func() {
		if err := bare.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	path := kubeconfig(t, "default", func(c *clientcmdapi.Config) {
		c.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
		c.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	})
	for _, verb := range []string{"status", "locks"} {
		wantProblem(t, say(t, path, "", verb), ExitFailure, "has no Lockstead operator: install it with Helm", "--context", config.Host)
	}
}

func TestAnAPIServerThatDoesNotAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	elsewhere := func(c *clientcmdapi.Config) { c.Clusters["test"].Server = "https://" + listener.Addr().String() }
	path := kubeconfig(t, "default", elsewhere)
	wantProblem(t, say(t, path, "", "locks"), ExitFailure, "does not answer", "check the network, or choose another cluster with --context", listener.Addr().String())
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	<-cut
}

func TestUsersWithoutRights(t *testing.T) {
	a := onRedis(t, redistest.Start(t, nil), environment.Namespace(t, nil), "billing")
	config := kubeconfig(t, a.lns.Namespace)
	for _, verb := range []string{"status", "locks"} {
		wantProblem(t, say(t, config, "", verb, "--as", "nobody"), ExitFailure, `User "nobody" cannot list resource "locknamespaces"`, "ask an administrator")
	}
	wantProblem(t, say(t, kubeconfig(t, a.lns.Namespace, func(c *clientcmdapi.Config) { c.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: "outdated"} }), "", "locks"),
		ExitFailure, "does not accept your credentials: log in again")

	// Somebody who may look, and not log in as the application.
	grant(t, a.lns.Namespace, "viewer", rule(v1alpha1.Group, "locknamespaces", "get", "list"))
	s := wantDone(t, say(t, config, "", "status", "--as", "viewer"))
	if !strings.Contains(s.out, "Not shown, since it could not be read: RedisInstances of namespace "+a.lns.Namespace) || !strings.Contains(s.out, "/billing") {
		t.Errorf("status says\n%s", s.out)
	}
	wantProblem(t, say(t, config, "", "locks", "--as", "viewer"), ExitFailure,
		"cannot read Secret "+a.lns.Namespace+"/billing-lock, with which the application logs in", `User "viewer" cannot get resource "secrets"`, "ask an administrator")
}

func TestChoosingALockNamespace(t *testing.T) {
	namespace := environment.Namespace(t, nil)
	config := kubeconfig(t, namespace)
	wantProblem(t, say(t, config, "", "locks"), ExitFailure, "namespace "+namespace+" has no LockNamespace: choose another namespace")
	environment.Create(t,
		&v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}, Spec: v1alpha1.LockNamespaceSpec{InstanceRef: &v1alpha1.InstanceReference{Name: "missing"}}},
		&v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"}})
	wantProblem(t, say(t, config, "", "locks", "c"), ExitFailure, "has no LockNamespace c: name one of a, b")
	wantProblem(t, say(t, config, "", "locks", "a"), ExitFailure, "LockNamespace "+namespace+"/a is not bound to a backend: ")
}
