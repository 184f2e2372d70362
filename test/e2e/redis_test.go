// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/internal/testcluster"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
)

func lockNamespace(namespace string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetGroupVersionKind(testcluster.Kind("LockNamespace"))
	object.SetNamespace(namespace)
	object.SetName(testcluster.WorkerName)
	return object
}

// testRedisRestart takes a lock with the application's real credentials, kills the server's pod, and looks again. The operator is down, so
// the server boots with what it has itself.
func testRedisRestart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	const pod = testcluster.InstanceName + "-redis-0"

	var address atomic.Value
	forward(t, testcluster.OperatorNamespace, pod, &address)
	one, two := redisClient(t, &address), redisClient(t, &address)
	h, err := one.Acquire(ctx, "held over a restart", 10*time.Minute, 10*time.Second)
	must(t, err)

	pods := cluster.Clientset.CoreV1().Pods(testcluster.OperatorNamespace)
	before, err := pods.Get(ctx, pod, metav1.GetOptions{})
	must(t, err)
	must(t, pods.Delete(ctx, pod, *metav1.NewDeleteOptions(0)))
	waitFor(t, ctx, "another pod of the server is ready", func() bool {
		now, err := pods.Get(ctx, pod, metav1.GetOptions{})
		return err == nil && now.UID != before.UID && podReady(now)
	})
	forward(t, testcluster.OperatorNamespace, pod, &address)

	waitFor(t, ctx, "the server answers", func() bool {
		_, err := two.Inspect(ctx, "held over a restart")
		return err == nil
	})
	holding, err := two.Inspect(ctx, "held over a restart")
	must(t, err)
	if !holding.Held || holding.ID != h.ID() || holding.Token != h.Token() {
		t.Fatalf("after the restart the server says %+v, want the holder %s with token %s", holding, h.ID(), h.Token())
	}
	if _, err := two.TryAcquire(ctx, "held over a restart", time.Minute, 0); !errors.Is(err, lock.ErrHeld) {
		t.Fatalf("after the restart another replica's answer is %v, want ErrHeld", err)
	}
	waitFor(t, ctx, "the holder renews", func() bool { return h.Renew(ctx, 0) == nil })
	must(t, h.Release(ctx))
	next, err := two.Acquire(ctx, "held over a restart", time.Minute, 10*time.Second)
	must(t, err)
	if !h.Token().Less(next.Token()) {
		t.Errorf("token %s after the restart is not greater than %s", next.Token(), h.Token())
	}
	must(t, next.Release(ctx))
}

// forward makes the pod reachable at the address that is stored.
func forward(t *testing.T, namespace, pod string, address *atomic.Value) {
	t.Helper()
	local, stop, err := cluster.PortForward(t.Context(), namespace, "pod/"+pod, 6379)
	must(t, err)
	t.Cleanup(stop)
	address.Store(local)
}

// redisClient opens the binding of the application over the forwarded port.
func redisClient(t *testing.T, address *atomic.Value) *lock.Client {
	t.Helper()
	secret := &corev1.Secret{}
	must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: redisNamespace, Name: testcluster.WorkerName + "-lock"}, secret))
	b, err := binding.Parse(secret.Data)
	must(t, err)
	server := redis.NewClient(&redis.Options{
		Username: b.Redis.Username, Password: b.Redis.Password, MaxRetries: -1, DisableIdentity: true,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address.Load().(string))
		},
		TLSConfig: tlsOf(b),
	})
	d, err := redislock.New(server, nil)
	must(t, err)
	c, err := lock.New(d, b.Prefix, &lock.Options{AttemptTimeout: 2 * time.Second})
	must(t, err)
	t.Cleanup(func() {
		closeCtx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(c.Close(closeCtx), d.Close(), server.Close()); err != nil {
			t.Logf("close: %v", err)
		}
	})
	return c
}

func tlsOf(b *binding.Binding) *tls.Config {
	if !b.Redis.TLS {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// waitFor asks again and again, since neither the server nor a forwarded port tells when it is ready.
func waitFor(t *testing.T, ctx context.Context, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
