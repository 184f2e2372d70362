// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/internal/testcluster"
)

// What can be taken away, in any order.
const (
	theApplication = "application"
	theInstance    = "RedisInstance"
	theOperator    = "operator"
)

// orders are all orders of these.
func orders(things ...string) [][]string {
	if len(things) == 0 {
		return [][]string{nil}
	}
	var all [][]string
	for i, first := range things {
		for _, rest := range orders(slices.Delete(slices.Clone(things), i, i+1)...) {
			all = append(all, append([]string{first}, rest...))
		}
	}
	return all
}

// testOrder installs everything, and takes it away in one order. Nothing may be held up.
func testOrder(t *testing.T, order []string) {
	values, err := cluster.RedisValues(t.Context())
	must(t, err)
	must(t, cluster.Install(t.Context(), values...))
	installed := time.Now()
	must(t, cluster.CreateNamespace(t.Context(), redisNamespace))
	applyLockNamespace(t, redisNamespace)
	t.Logf("a LockNamespace was ready %.1f s after the installation", time.Since(installed).Seconds())
	for _, thing := range order {
		switch thing {
		case theApplication:
			mustBeGoneInTime(t, redisNamespace)
		case theInstance:
			deleteInstance(t, slices.Index(order, theApplication) > slices.Index(order, theInstance), slices.Index(order, theOperator) > slices.Index(order, theInstance))
		case theOperator:
			must(t, cluster.Uninstall(t.Context()))
		}
	}
	mustBeGoneInTime(t, testcluster.OperatorNamespace)
	kubectl(t, "get", "crd", "locknamespaces.lockstead.dev", "redisinstances.lockstead.dev")
	kubectl(t, "delete", "crd", "locknamespaces.lockstead.dev", "redisinstances.lockstead.dev", "--timeout=30s")
}

// deleteInstance deletes the RedisInstance. While the operator is installed the API server first refuses to delete one that is in use.
func deleteInstance(t *testing.T, inUse, protected bool) {
	t.Helper()
	remove := []string{"--namespace", testcluster.OperatorNamespace, "delete", "redisinstance", testcluster.InstanceName, "--timeout=30s"}
	if inUse && protected {
		_, err := cluster.Kubectl(t.Context(), remove...)
		if err == nil || !strings.Contains(err.Error(), "in use by 1 LockNamespaces") {
			t.Fatalf("deletion of a RedisInstance in use: %v, want it refused", err)
		}
		status, reason, message := condition(t, t.Context(), instanceKey, "RedisInstance", "DeletionBlocked")
		if status != "True" || reason != "InUse" || !strings.Contains(message, redisNamespace+"/"+testcluster.WorkerName) {
			t.Errorf("DeletionBlocked is %s, %s: %s", status, reason, message)
		}
		kubectl(t, "--namespace", testcluster.OperatorNamespace, "patch", "redisinstance", testcluster.InstanceName, "--type=merge", "--patch", `{"spec":{"deletionProtection":"Disabled"}}`)
	}
	ctx, cancel := context.WithTimeout(t.Context(), gone)
	defer cancel()
	_, err := cluster.Kubectl(ctx, remove...)
	// The API server forgets a policy a moment after it was deleted with the operator.
	for !protected && err != nil && strings.Contains(err.Error(), "in use by") && ctx.Err() == nil {
		_, err = cluster.Kubectl(ctx, remove...)
	}
	must(t, err)
}
