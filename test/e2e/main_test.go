// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e tests the installed product on a real cluster. Run it with `make e2e`; CLUSTER=existing uses the cluster of the current
// context, and KEEP=1 leaves everything for a look around.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/internal/testcluster"
)

const (
	redisNamespace = "e2e-redis"
	leaseNamespace = "e2e-lease"
	lockTTL        = 5 * time.Second
	// gone is far longer than the deletion of an application's namespace takes: what holds a namespace hostage does so for ever.
	gone = 3 * time.Minute
)

var instanceKey = client.ObjectKey{Namespace: testcluster.OperatorNamespace, Name: testcluster.InstanceName}

// cluster is set by TestMain before any test runs.
var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root, err := filepath.Abs("../..")
	if err != nil {
		return 1, err
	}
	cluster, err = testcluster.Up(ctx, testcluster.ConfigFromEnvironment(root, os.Getenv))
	defer func() {
		if downErr := cluster.Down(context.WithoutCancel(ctx), redisNamespace, leaseNamespace, lossNamespace); err == nil {
			err = downErr
		}
	}()
	if err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// tell logs with the time since the test began.
func tell(t *testing.T) func(string) {
	started := time.Now()
	return func(text string) { t.Logf("[%5.1fs] %s", time.Since(started).Seconds(), text) }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	printed, err := cluster.Kubectl(t.Context(), args...)
	must(t, err)
	return printed
}

func waitReady(t *testing.T, kind schema.GroupVersionKind, key client.ObjectKey) {
	t.Helper()
	must(t, cluster.WaitReady(t.Context(), kind, key, 2*time.Minute, tell(t)))
}

// scaleOperator starts or stops the operator and waits until it is so.
func scaleOperator(t *testing.T, replicas int) {
	t.Helper()
	deployment := "deployment/" + testcluster.Release
	kubectl(t, "--namespace", testcluster.OperatorNamespace, "scale", deployment, fmt.Sprintf("--replicas=%d", replicas))
	if replicas > 0 {
		kubectl(t, "--namespace", testcluster.OperatorNamespace, "rollout", "status", deployment, "--timeout=2m")
		return
	}
	kubectl(t, "--namespace", testcluster.OperatorNamespace, "wait", "--for=delete", "pod", "--selector=app.kubernetes.io/name=lockstead", "--timeout=1m")
}

// mustBeGoneInTime deletes an application's namespace.
func mustBeGoneInTime(t *testing.T, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), gone)
	defer cancel()
	started := time.Now()
	if err := cluster.DeleteNamespace(ctx, namespace); err != nil {
		t.Fatalf("namespace %s is not gone within %s: %v", namespace, gone, err)
	}
	t.Logf("namespace %s was gone after %.1f s", namespace, time.Since(started).Seconds())
}

// condition reads one condition of an object.
func condition(t *testing.T, ctx context.Context, key client.ObjectKey, kind, name string) (status, reason, message string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(testcluster.Kind(kind))
	must(t, cluster.Client.Get(ctx, key, object))
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, raw := range conditions {
		if c, ok := raw.(map[string]any); ok && c["type"] == name {
			status, _ = c["status"].(string)
			reason, _ = c["reason"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, reason, message
}
