// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/internal/testcluster"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
)

const (
	lossNamespace = "e2e-loss"
	lossInstance  = "lossy"
	// lossTTL is the longest TTL, and so how long nothing is granted after a loss.
	lossTTL = 30 * time.Second
)

// testVolumeLost runs a RedisInstance with TLS, takes a lock on it, and throws its volume away: nobody gets the lock before the holder's deadline.
func testVolumeLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	must(t, cluster.CreateNamespace(ctx, lossNamespace))
	must(t, cluster.Apply(ctx, certificate(t, lossInstance+"-redis."+lossNamespace+".svc")))
	must(t, cluster.Apply(ctx, lossyInstance(ctx, t)))
	applicationKey := client.ObjectKey{Namespace: lossNamespace, Name: "app"}
	must(t, cluster.Apply(ctx, manifest("LockNamespace", lossNamespace, "app", map[string]any{
		"instanceRef": map[string]any{"name": lossInstance}, "ttl": map[string]any{"default": "10s", "max": lossTTL.String()},
	})))
	waitReady(t, testcluster.Kind("LockNamespace"), applicationKey)
	if status, reason, message := condition(t, ctx, client.ObjectKey{Namespace: lossNamespace, Name: lossInstance}, "RedisInstance", "TLSReady"); status != "True" {
		t.Errorf("TLSReady is %q, %s: %s", status, reason, message)
	}

	const pod = lossInstance + "-redis-0"
	var address atomic.Value
	forward(t, lossNamespace, pod, &address)
	one := lossClient(t, &address)
	h, err := one.Acquire(ctx, "held over a loss", lossTTL, 10*time.Second)
	must(t, err)
	deadline := time.Now().Add(h.Remaining())

	pods, claims := cluster.Clientset.CoreV1().Pods(lossNamespace), cluster.Clientset.CoreV1().PersistentVolumeClaims(lossNamespace)
	before, err := pods.Get(ctx, pod, metav1.GetOptions{})
	must(t, err)
	must(t, claims.Delete(ctx, "data-"+pod, metav1.DeleteOptions{}))
	must(t, pods.Delete(ctx, pod, *metav1.NewDeleteOptions(0)))
	replaced := time.Now()
	waitFor(t, ctx, "another pod runs on an empty volume", func() bool {
		now, err := pods.Get(ctx, pod, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || (err == nil && now.UID == before.UID) {
			return false
		}
		must(t, err)
		if now.Status.Phase == corev1.PodPending && time.Since(replaced) > 5*time.Second {
			// It was made before its old claim was gone; the next one gets a claim of its own.
			replaced = time.Now()
			_ = pods.Delete(ctx, pod, *metav1.NewDeleteOptions(0))
			return false
		}
		return podReady(now)
	})
	forward(t, lossNamespace, pod, &address)
	two := lossClient(t, &address)
	var next *lock.Handle
	waitFor(t, ctx, "the lock is granted again", func() bool {
		next, err = two.TryAcquire(ctx, "held over a loss", 10*time.Second, 0)
		if err == nil && time.Now().Before(deadline) {
			t.Errorf("the lock was granted %s before the holder's deadline", time.Until(deadline))
		}
		return err == nil
	})
	t.Logf("granted again %.1f s after the holder's deadline", time.Since(deadline).Seconds())
	if !h.Token().Less(next.Token()) {
		t.Errorf("token %s after the loss is not greater than %s", next.Token(), h.Token())
	}
	if h.Valid() {
		t.Error("the holder's handle is still valid")
	}
	must(t, next.Release(ctx))
	events := kubectl(t, "--namespace", lossNamespace, "get", "events", "-o", "jsonpath={.items[*].reason}")
	if !strings.Contains(events, "DataMayBeLost") {
		t.Errorf("no event DataMayBeLost in %q", events)
	}
	// In use, and gone with its namespace all the same.
	mustBeGoneInTime(t, lossNamespace)
}

// lossClient opens the application's binding over the forwarded port, with TLS as the binding says.
func lossClient(t *testing.T, address *atomic.Value) *lock.Client {
	t.Helper()
	secret := &corev1.Secret{}
	must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: lossNamespace, Name: "app-lock"}, secret))
	b, err := binding.Parse(secret.Data)
	must(t, err)
	if !b.Redis.TLS || len(b.Redis.CA) == 0 {
		t.Errorf("the binding has tls %t and an authority of %d bytes", b.Redis.TLS, len(b.Redis.CA))
	}
	b, err = at(b, address.Load().(string))
	must(t, err)
	d, err := redislock.FromBinding(b, nil)
	must(t, err)
	c, err := lock.New(d, b.Prefix, &lock.Options{AttemptTimeout: 2 * time.Second, MaxTTL: lossTTL})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(c.Close(ctx), d.Close()); err != nil {
			t.Logf("close: %v", err)
		}
	})
	return c
}

func lossyInstance(ctx context.Context, t *testing.T) *unstructured.Unstructured {
	t.Helper()
	managed := map[string]any{
		"engine": "Redis", "tls": map[string]any{"mode": "Secret", "secretName": "certificate"},
		"storage": map[string]any{"size": "64Mi", "whenDeleted": "Delete"},
	}
	image, err := cluster.RedisImage(ctx)
	must(t, err)
	if image != "" {
		managed["image"] = image
	}
	return manifest("RedisInstance", lossNamespace, lossInstance, map[string]any{
		"mode": "Managed", "limits": map[string]any{"maxTTL": lossTTL.String()}, "managed": managed,
	})
}

func manifest(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(testcluster.Kind(kind))
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// certificate is a Secret with a self-signed certificate for a Service, and for the loopback address of a forwarded port.
func certificate(t *testing.T, host string) *unstructured.Unstructured {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	public := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata": map[string]any{"namespace": lossNamespace, "name": "certificate"},
		"stringData": map[string]any{
			"tls.crt": public, "ca.crt": public,
			"tls.key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		},
	}}
}
