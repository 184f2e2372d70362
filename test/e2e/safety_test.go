// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/internal/testcluster"
)

// flips is how long the operator may take to notice what somebody did to a server.
const flips = 30 * time.Second

// testLockSafeFlips sets a setting that evicts locks by hand: LockSafe says so, and the setting is put right.
func testLockSafeFlips(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*flips)
	defer cancel()
	var address atomic.Value
	forward(t, testcluster.OperatorNamespace, testcluster.InstanceName+"-redis-0", &address)
	admin := &corev1.Secret{}
	must(t, cluster.Client.Get(ctx, client.ObjectKey{Namespace: testcluster.OperatorNamespace, Name: testcluster.InstanceName + "-redis-admin"}, admin))
	server := redis.NewClient(&redis.Options{
		Addr: address.Load().(string), Username: string(admin.Data["username"]), Password: string(admin.Data["password"]), DisableIdentity: true,
	})
	defer func() { _ = server.Close() }()

	started := time.Now()
	must(t, server.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	waitFor(t, ctx, "LockSafe is false", func() bool {
		status, reason, message := condition(t, ctx, instanceKey, "RedisInstance", "LockSafe")
		if status != "False" {
			return false
		}
		if reason != "EvictionPolicyWrong" || !strings.Contains(message, "allkeys-lru") {
			t.Errorf("LockSafe is false for %s: %s", reason, message)
		}
		return true
	})
	took := time.Since(started)
	if took > flips {
		t.Errorf("LockSafe was false after %s, the limit is %s", took, flips)
	}
	waitFor(t, ctx, "LockSafe is true again", func() bool {
		status, _, _ := condition(t, ctx, instanceKey, "RedisInstance", "LockSafe")
		return status == "True"
	})
	if now := server.ConfigGet(ctx, "maxmemory-policy").Val()["maxmemory-policy"]; now != "noeviction" {
		t.Errorf("maxmemory-policy is %q", now)
	}
	t.Logf("LockSafe was false after %.1f s, and true again after %.1f s", took.Seconds(), time.Since(started).Seconds())
}
