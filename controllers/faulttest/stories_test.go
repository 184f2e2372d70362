// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package faulttest_test

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// overlap is how long a password works beside the one that came after it.
const overlap = time.Hour

func stories() []story {
	type steps = []func(*world)
	ready := func(w *world) {
		w.createExternal()
		w.createNamespace("billing", onLocks)
	}
	readyPod := func(w *world) {
		w.createManaged()
		w.createNamespace("billing", onLocks)
	}
	held := func(before func(*world)) func(*world) {
		return func(w *world) {
			before(w)
			w.settle()
			w.hold(w.prefix("billing"))
		}
	}
	return []story{
		{name: "first, external", changes: 10, answers: true, uninterrupted: true, happens: steps{ready}},
		{name: "first, managed", changes: 16, answers: true, uninterrupted: true, happens: steps{readyPod}},
		{name: "first, lease", changes: 5, happens: steps{func(w *world) { w.createNamespace("billing") }}},
		{name: "rotation, external", changes: 5, answers: true, uninterrupted: true, before: held(ready), happens: steps{rotate, waitForOverlap}},
		{name: "rotation, managed", changes: 7, answers: true, uninterrupted: true, before: held(readyPod), happens: steps{rotate, waitForOverlap}},
		{name: "secret deleted, external", changes: 3, uninterrupted: true, before: held(ready), happens: steps{deleteSecret, waitForOverlap}},
		{name: "secret deleted, managed", changes: 3, uninterrupted: true, before: held(readyPod), happens: steps{deleteSecret, waitForOverlap}},
		{name: "data lost, external", changes: 6, answers: true, before: held(ready), happens: steps{loseData}},
		{name: "data lost, managed", changes: 3, before: held(readyPod), happens: steps{loseData}},
		{name: "server lost, external", changes: 3, before: held(ready), happens: steps{loseServer}},
		{name: "server restarted, external", changes: 3, before: held(ready), happens: steps{restartServer}},
		{name: "server restarted, managed", changes: 3, before: held(readyPod), happens: steps{restartServer}},
		{name: "server unreachable for a time", changes: 3, before: held(ready), happens: steps{func(w *world) { w.down = true }, func(w *world) { w.down = false }}},
		{name: "from leases to redis", changes: 3, before: func(w *world) {
			w.createExternal()
			w.createNamespace("billing")
			w.createLease()
		}, happens: steps{func(w *world) { w.recreate(onLocks) }, func(w *world) { w.remove(&coordinationv1.Lease{}, w.lease().Name) }}},
		{name: "from redis to leases", changes: 3, before: ready, happens: steps{func(w *world) { w.recreate() }}},
		{name: "lock namespace deleted, external", changes: 2, before: ready, happens: steps{deleteNamespace}},
		{name: "lock namespace deleted, managed", changes: 2, before: readyPod, happens: steps{deleteNamespace}},
		{name: "instance made anew, external", changes: 3, before: held(ready), happens: steps{
			func(w *world) {
				w.remove(&v1alpha1.LockNamespace{}, "billing")
				w.remove(&v1alpha1.RedisInstance{}, "locks")
			},
			func(w *world) {
				w.create(w.external())
				w.createNamespace("billing", onLocks)
			},
		}},
		{name: "opt-outs, managed", changes: 3, uninterrupted: true, before: held(readyPod), happens: steps{optOut(v1alpha1.ChildDisabled), optOut(v1alpha1.ChildManaged)}},
		{name: "no longer allowed, and allowed again, external", changes: 3, before: ready, happens: steps{allow(v1alpha1.NamespacesSelector), allow(v1alpha1.NamespacesSame)}},
		{name: "no longer allowed, and allowed again, managed", changes: 3, before: readyPod, happens: steps{allow(v1alpha1.NamespacesSelector), allow(v1alpha1.NamespacesSame)}},
		{name: "longest TTL, external", changes: 3, uninterrupted: true, before: held(ready), happens: steps{limitTTL(2 * maxTTL), limitTTL(maxTTL)}},
		{name: "shared, external", changes: 3, before: func(w *world) {
			ready(w)
			edit(w, &v1alpha1.LockNamespace{}, "billing", func(lns *v1alpha1.LockNamespace) {
				lns.Spec.ShareWith = []v1alpha1.ShareGrant{{Namespace: w.namespace}}
			})
		}, happens: steps{
			func(w *world) {
				w.createNamespace("sharer", func(_ *world, spec *v1alpha1.LockNamespaceSpec) {
					spec.ShareFrom = &v1alpha1.LockNamespaceReference{Namespace: w.namespace, Name: "billing"}
				})
			},
			func(w *world) {
				edit(w, &v1alpha1.LockNamespace{}, "billing", func(lns *v1alpha1.LockNamespace) { lns.Spec.ShareWith = nil })
			},
		}},
	}
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	object.SetNamespace(w.namespace)
	w.must(environment.Admin.Create(w.t.Context(), object))
}

func (w *world) external() *v1alpha1.RedisInstance {
	return &v1alpha1.RedisInstance{ObjectMeta: metav1.ObjectMeta{Name: "locks"}, Spec: v1alpha1.RedisInstanceSpec{
		Mode: v1alpha1.ModeExternal, Limits: v1alpha1.InstanceLimits{MaxTTL: metav1.Duration{Duration: maxTTL}},
		External: &v1alpha1.ExternalServer{
			Host: "redis.example.com", TLS: v1alpha1.ExternalTLS{Mode: v1alpha1.TLSDisabled}, AdminCredentials: v1alpha1.AdminCredentials{SecretName: "admin"},
		},
	}}
}

func (w *world) createExternal() {
	w.t.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "admin", Labels: map[string]string{redisinstance.LabelCredentials: "true"}},
		StringData: map[string]string{"username": "admin", "password": w.server.AdminPassword()},
	})
	w.create(w.external())
}

func (w *world) createManaged() {
	w.t.Helper()
	w.pod = true
	w.create(&v1alpha1.RedisInstance{ObjectMeta: metav1.ObjectMeta{Name: "locks"}, Spec: v1alpha1.RedisInstanceSpec{
		Mode: v1alpha1.ModeManaged, Limits: v1alpha1.InstanceLimits{MaxTTL: metav1.Duration{Duration: maxTTL}},
		Managed: &v1alpha1.ManagedServer{Engine: v1alpha1.EngineRedis, Version: "7.0"},
	}})
}

func onLocks(_ *world, spec *v1alpha1.LockNamespaceSpec) {
	spec.InstanceRef = &v1alpha1.InstanceReference{Name: "locks"}
}

func (w *world) createNamespace(name string, change ...func(*world, *v1alpha1.LockNamespaceSpec)) {
	w.t.Helper()
	lns := &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.LockNamespaceSpec{
		TTL:         v1alpha1.TTL{Max: metav1.Duration{Duration: maxTTL}},
		Credentials: v1alpha1.Credentials{Overlap: metav1.Duration{Duration: overlap}},
	}}
	for _, f := range change {
		f(w, &lns.Spec)
	}
	w.create(lns)
}

// recreate makes the LockNamespace anew, as people have to who want another backend.
func (w *world) recreate(change ...func(*world, *v1alpha1.LockNamespaceSpec)) {
	w.t.Helper()
	deleteNamespace(w)
	w.createNamespace("billing", change...)
}

func (w *world) prefix(name string) string { return redisproto.Prefix("lk", w.namespace+"/"+name) }

// keepPod has a pod go on with the password that is in the Secret now, for as long as it is promised to work.
func (w *world) keepPod() {
	w.t.Helper()
	secret := &corev1.Secret{}
	if !w.get(secret, "billing-lock") {
		w.t.Fatal("there is no Secret")
	}
	w.pods = append(w.pods, pod{string(secret.Data["username"]), string(secret.Data["password"]), w.clock.Now().Add(overlap)})
}

func rotate(w *world) {
	w.keepPod()
	edit(w, &v1alpha1.LockNamespace{}, "billing", func(lns *v1alpha1.LockNamespace) { lns.Spec.Credentials.RotationCounter++ })
}

func deleteSecret(w *world) {
	w.keepPod()
	w.remove(&corev1.Secret{}, "billing-lock")
}

func waitForOverlap(w *world) { w.pass(overlap) }

// loseData is what a server does to which somebody sent FLUSHALL. It keeps its users.
func loseData(w *world) { w.must(w.admin.FlushAll(w.t.Context()).Err()) }

// loseServer puts an empty server in the place of the one that there was.
func loseServer(w *world) {
	w.server.Kill(w.t)
	w.server.RemoveData(w.t)
	w.server.Run(w.t)
}

// restartServer kills a server that keeps every write. An external one forgets its users.
func restartServer(w *world) {
	w.server.Kill(w.t)
	w.server.Run(w.t)
	if w.pod {
		w.boot()
	}
}

func deleteNamespace(w *world) { w.remove(&v1alpha1.LockNamespace{}, "billing") }

func optOut(policy v1alpha1.ChildPolicy) func(*world) {
	return func(w *world) {
		edit(w, &v1alpha1.RedisInstance{}, "locks", func(instance *v1alpha1.RedisInstance) {
			instance.Spec.Managed.NetworkPolicy, instance.Spec.Managed.PodDisruptionBudget = policy, policy
		})
	}
}

func allow(from v1alpha1.NamespacesFrom) func(*world) {
	return func(w *world) {
		edit(w, &v1alpha1.RedisInstance{}, "locks", func(instance *v1alpha1.RedisInstance) {
			instance.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: from}
			if from == v1alpha1.NamespacesSelector {
				instance.Spec.AllowedNamespaces.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"nobody": "has this"}}
			}
		})
	}
}

func limitTTL(limit time.Duration) func(*world) {
	return func(w *world) {
		edit(w, &v1alpha1.RedisInstance{}, "locks", func(instance *v1alpha1.RedisInstance) {
			instance.Spec.Limits.MaxTTL = metav1.Duration{Duration: limit}
		})
	}
}

// lease is a lock that somebody holds as a Lease.
func (w *world) lease() *coordinationv1.Lease {
	w.t.Helper()
	lease, err := leaseformat.Create(w.namespace, leaseformat.Acquisition{
		Prefix: w.prefix("billing"), Key: "k", ID: strings.Repeat("0a", 16), Duration: maxTTL, Now: time.Unix(1, 0),
	})
	w.must(err)
	return lease
}

func (w *world) createLease() { w.create(w.lease()) }
