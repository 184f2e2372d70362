// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startServer starts an API server, and gives a client and the path of a kubeconfig, both with every right.
func startServer(t *testing.T) (client.Client, string) {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run the tests with 'make test', or set it to the output of hack/cluster/assets.sh")
	}
	environment := &envtest.Environment{}
	// Also when the start fails half-way.
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	content, err := admin.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		t.Fatal(err)
	}
	kube, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return kube, kubeconfig
}

// Applications hold locks in the default RedisInstance. Whatever is done with the release, it must stay the same object: one
// that is deleted and made again has lost them all.
func TestDefaultRedisInstanceOutlivesReleases(t *testing.T) {
	t.Parallel()
	kube, kubeconfig := startServer(t)
	uid := func() types.UID {
		t.Helper()
		instance := &unstructured.Unstructured{}
		instance.SetGroupVersionKind(schema.GroupVersionKind{Group: "lockstead.dev", Version: "v1alpha1", Kind: "RedisInstance"})
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "lockstead-system", Name: "default"}, instance); err != nil {
			t.Fatal(err)
		}
		return instance.GetUID()
	}

	with := []string{"--set", "defaultRedisInstance.enabled=true,defaultRedisInstance.spec.mode=Managed"}
	var first types.UID
	for _, step := range []struct {
		name string
		args []string
	}{
		{"first install, the CRDs come with it", append([]string{"install", "lockstead", chart, "--create-namespace"}, with...)},
		{"upgrade", append([]string{"upgrade", "lockstead", chart, "--set", "logLevel=debug"}, with...)},
		{"second upgrade", append([]string{"upgrade", "lockstead", chart}, with...)},
		{"switched off", []string{"upgrade", "lockstead", chart}},
		{"switched on again", append([]string{"upgrade", "lockstead", chart}, with...)},
		{"uninstall", []string{"uninstall", "lockstead"}},
		{"install over what was kept", append([]string{"install", "lockstead", chart}, with...)},
	} {
		output, err := helm(t, append(step.args, "--namespace", "lockstead-system", "--kubeconfig", kubeconfig)...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", step.name, err, output)
		}
		switch now := uid(); {
		case first == "":
			first = now
		case now != first:
			t.Fatalf("%s: the RedisInstance was deleted and made again", step.name)
		}
	}
}
