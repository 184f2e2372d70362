// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/internal/testcluster"
)

// TestLife is the life of one installation, from the first application to the last. The steps build on each other; the first that fails
// ends the test.
func TestLife(t *testing.T) {
	life, observers := t, map[string]*testcluster.Observer{}
	failed := false
	step := func(name string, run func(t *testing.T)) {
		if failed {
			return
		}
		if !t.Run(name, run) {
			failed = true
			for _, namespace := range []string{redisNamespace, leaseNamespace} {
				cluster.Explain(t.Context(), namespace, tell(t))
			}
		}
	}
	// eachAtWork waits until three live workers of each backend have done some more sections.
	eachAtWork := func(t *testing.T) {
		t.Helper()
		for namespace, o := range observers {
			if err := o.AtWork(t.Context(), testcluster.Replicas, 6); err != nil {
				t.Fatalf("%s: %v", namespace, err)
			}
		}
	}
	workerArgs := []string{"--ttl=" + lockTTL.String(), "--section-min=200ms", "--section-max=800ms"}
	deploy := func(t *testing.T, namespace string) {
		t.Helper()
		must(t, cluster.DeployWorkers(t.Context(), namespace, tell(t), workerArgs...))
	}

	step("without Redis an application gets Leases", func(t *testing.T) {
		must(t, cluster.Install(t.Context(), testcluster.NoRedisValues()...))
		deploy(t, leaseNamespace)
		wantBackend(t, leaseNamespace, "Lease")
	})
	step("with a default RedisInstance an application gets Redis, and the one that is bound does not move", func(t *testing.T) {
		values, err := cluster.RedisValues(t.Context())
		must(t, err)
		must(t, cluster.Install(t.Context(), values...))
		waitReady(t, testcluster.Kind("RedisInstance"), instanceKey)
		deploy(t, redisNamespace)
		wantBackend(t, redisNamespace, "Redis")
		waitReady(t, testcluster.Kind("LockNamespace"), client.ObjectKey{Namespace: leaseNamespace, Name: testcluster.WorkerName})
		wantBackend(t, leaseNamespace, "Lease")
	})
	for _, namespace := range []string{redisNamespace, leaseNamespace} {
		if !failed {
			observers[namespace] = cluster.Observe(t.Context(), namespace, lockTTL, tell(t), nil)
			defer observers[namespace].Close()
		}
	}
	step("kubectl get shows prefix, backend, instance, ready and age", func(t *testing.T) {
		table := kubectl(t, "get", "lns,ri", "--all-namespaces")
		t.Logf("kubectl get lns,ri --all-namespaces\n%s", table)
		for _, want := range []string{"PREFIX", "BACKEND", "INSTANCE", "READY", "AGE", "lk:{" + redisNamespace + "/worker}:", "Redis", "Lease", "True"} {
			if !strings.Contains(table, want) {
				t.Errorf("kubectl get lns,ri does not show %q", want)
			}
		}
	})
	step("three replicas lock on both backends", eachAtWork)
	var rotated *rotation
	step("a password is rotated under load", func(t *testing.T) { rotated = startRotation(t, life) })
	step("a setting that evicts locks is noticed and put right", testLockSafeFlips)
	step("a volume is lost while a lock is held", testVolumeLost)
	for _, namespace := range []string{redisNamespace, leaseNamespace} {
		step("a killed holder is followed within TTL and 2 s in "+namespace, func(t *testing.T) {
			took, err := observers[namespace].KillHolder(t.Context())
			must(t, err)
			t.Logf("taken over after %.1f s (TTL %s)", took.Seconds(), lockTTL)
		})
	}
	step("the operator restarts", func(t *testing.T) {
		deployment := "deployment/" + testcluster.Release
		kubectl(t, "--namespace", testcluster.OperatorNamespace, "rollout", "restart", deployment)
		kubectl(t, "--namespace", testcluster.OperatorNamespace, "rollout", "status", deployment, "--timeout=2m")
		eachAtWork(t)
	})
	step("the old password is gone, and no acquire failed", func(t *testing.T) {
		rotated.finish(t)
		eachAtWork(t)
	})
	step("without the operator running and new replicas go on", func(t *testing.T) {
		scaleOperator(t, 0)
		eachAtWork(t)
		for namespace, o := range observers {
			kubectl(t, "--namespace", namespace, "scale", "deployment/worker", "--replicas=0")
			must(t, o.Until(t.Context(), "all workers have ended", func() bool { return o.LivePods() == 0 }))
			kubectl(t, "--namespace", namespace, "scale", "deployment/worker", "--replicas=3")
		}
		eachAtWork(t)
	})
	step("without the operator Redis restarts and held locks are still held", testRedisRestart)
	step("no two sections overlapped and all tokens grew", func(t *testing.T) {
		eachAtWork(t)
		for namespace, o := range observers {
			if err := o.Judge(t.Context()); err != nil {
				t.Errorf("%s: %v", namespace, err)
			}
			t.Logf("%s: %d sections, 0 overlaps", namespace, o.Report().Sections)
		}
	})
	step("an application's namespace goes while the operator is down", func(t *testing.T) {
		mustBeGoneInTime(t, leaseNamespace)
	})
	step("an application's namespace goes while the operator is up", func(t *testing.T) {
		scaleOperator(t, 1)
		waitReady(t, testcluster.Kind("LockNamespace"), client.ObjectKey{Namespace: redisNamespace, Name: testcluster.WorkerName})
		mustBeGoneInTime(t, redisNamespace)
	})
	step("everything else goes too", func(t *testing.T) {
		must(t, cluster.Uninstall(t.Context()))
		mustBeGoneInTime(t, testcluster.OperatorNamespace)
		kubectl(t, "delete", "crd", "locknamespaces.lockstead.dev", "redisinstances.lockstead.dev", "--timeout=30s")
	})
	for _, order := range orders(theApplication, theInstance, theOperator) {
		step("taken away in the order "+strings.Join(order, ", "), func(t *testing.T) { testOrder(t, order) })
	}
}

func wantBackend(t *testing.T, namespace, want string) {
	t.Helper()
	got := kubectl(t, "--namespace", namespace, "get", "locknamespace", testcluster.WorkerName, "-o", "jsonpath={.status.backend}")
	if got != want {
		t.Fatalf("backend of %s is %q, want %q", namespace, got, want)
	}
}

// applyLockNamespace makes an application without workers, and waits until it is bound.
func applyLockNamespace(t *testing.T, namespace string) {
	t.Helper()
	must(t, cluster.Apply(t.Context(), lockNamespace(namespace)))
	must(t, cluster.WaitReady(t.Context(), testcluster.Kind("LockNamespace"), client.ObjectKey{Namespace: namespace, Name: testcluster.WorkerName}, time.Minute, tell(t)))
}
