// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/controllertest"
	"github.com/lockstead/lockstead/pkg/binding"
)

// pod is a client with the rights of a service account.
func pod(t *testing.T, namespace, account string) client.Client {
	t.Helper()
	config := rest.CopyConfig(environment.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + account, Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	c, err := client.New(config, client.Options{Scheme: controllertest.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func lease(namespace string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "lk-"}}
}

func TestWithoutARedisInstanceLocksAreLeases(t *testing.T) {
	b := newBench(t)
	a := b.application(b.namespace, "billing")
	a.reconcile()
	a.wantReady()
	if s := a.object.Status; s.Backend != v1alpha1.BackendLease || s.InstanceRef != nil || s.Username != "" || s.Prefix != "lk:{"+b.namespace+"/billing}:" {
		t.Errorf("status is %+v", s)
	}
	got := a.binding()
	if got.Type != binding.TypeLease || got.Prefix != a.object.Status.Prefix || got.LockNamespace != b.namespace+"/billing" ||
		got.TTLDefault != 30*time.Second || got.TTLMax != time.Hour || got.Lease.Epoch != 1 ||
		got.Lease.FallbackCondition != "NoRedisConfigured" || !strings.Contains(got.Lease.FallbackFix, "instanceRef") {
		t.Errorf("the binding is %+v, Lease part %+v", got, got.Lease)
	}
	if events := b.events(); len(events) != 1 || !strings.HasPrefix(events[0], "Normal Ready") {
		t.Errorf("events are %q", events)
	}
	a.wantNoWrites()
	if events := b.events(); len(events) > 0 {
		t.Errorf("events of a second reconciliation: %q", events)
	}
	for name, tc := range map[string]struct {
		account string
		object  client.Object
		allowed bool
	}{
		"consumer, its namespace":      {"default", lease(b.namespace), true},
		"another account":              {"builder", lease(b.namespace), false},
		"consumer, another namespace":  {"default", lease("kube-system"), false},
		"consumer, something else":     {"default", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "x"}}, false},
		"consumer, its LockNamespaces": {"default", &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "x"}}, false},
	} {
		err := pod(t, b.namespace, tc.account).Create(t.Context(), tc.object)
		if tc.allowed && err != nil || !tc.allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s: create returns %v", name, err)
		}
	}
}

func TestRightsFollowTheConsumers(t *testing.T) {
	b := newBench(t)
	a := b.application(b.namespace, "billing")
	a.reconcile()
	update(t, a.object, func(lns *v1alpha1.LockNamespace) { lns.Spec.Consumers = []string{"api", "worker"} })
	a.reconcile()
	a.wantReady()
	for account, want := range map[string]bool{"api": true, "worker": true, "default": false} {
		if err := pod(t, b.namespace, account).Create(t.Context(), lease(b.namespace)); (err == nil) != want {
			t.Errorf("%s: create returns %v", account, err)
		}
	}
	a.wantNoWrites()
}

func TestTheSecretFollowsTheTTL(t *testing.T) {
	b := newBench(t)
	a := b.application(b.namespace, "billing", func(s *v1alpha1.LockNamespaceSpec) { s.Binding.SecretName = "mine" })
	a.reconcile()
	update(t, a.object, func(lns *v1alpha1.LockNamespace) {
		lns.Spec.TTL = v1alpha1.TTL{Default: metav1.Duration{Duration: 5 * time.Second}, Max: metav1.Duration{Duration: time.Minute}}
	})
	a.reconcile()
	if got := a.binding(); a.object.Status.Binding.Name != "mine" || got.TTLDefault != 5*time.Second || got.TTLMax != time.Minute {
		t.Errorf("Secret %s has default %s, longest %s", a.object.Status.Binding.Name, got.TTLDefault, got.TTLMax)
	}
}

func TestNoRightsInTheNamespacesOfTheCluster(t *testing.T) {
	b := newBench(t)
	a := b.application(environment.Namespace(t, nil, "kube-"), "billing")
	a.wantRefused(v1alpha1.ReasonNamespaceReserved)
	a.wantNothingMade()
	a.wantNoWrites()
}

func TestAForeignSecretIsLeftAlone(t *testing.T) {
	b := newBench(t)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "billing-lock"}, StringData: map[string]string{"type": "precious"}}
	environment.Create(t, foreign)
	a := b.application(b.namespace, "billing")
	if result := a.reconcile(); result.RequeueAfter == 0 {
		t.Error("it is not looked at again")
	}
	if message := a.wantUnprogrammed(v1alpha1.ReasonSecretConflict); !strings.Contains(message, "billing-lock") {
		t.Errorf("the condition says %q", message)
	}
	a.wantNoWrites()
	after := foreign.DeepCopy()
	environment.Get(t, after)
	if after.ResourceVersion != foreign.ResourceVersion || a.object.Status.Binding != nil {
		t.Errorf("the Secret of somebody else was changed or bound: %+v", after)
	}
	remove(t, foreign)
	a.reconcile()
	a.wantReady()
}

// A LockNamespace made anew meets the Secret of the old one until that is collected.
func TestTheSecretOfTheFormerObjectIsNotTakenOver(t *testing.T) {
	b := newBench(t)
	former := b.application(b.namespace, "billing")
	former.reconcile()
	remove(t, former.object)
	a := b.application(b.namespace, "billing")
	a.reconcile()
	a.wantUnprogrammed(v1alpha1.ReasonSecretConflict)
}

func TestTwoLockNamespacesDoNotShareASecret(t *testing.T) {
	b := newBench(t)
	same := func(s *v1alpha1.LockNamespaceSpec) { s.Binding.SecretName = "shared" }
	first, second := b.application(b.namespace, "first", same), b.application(b.namespace, "second", same)
	first.reconcile()
	second.reconcile()
	first.wantReady()
	if message := second.wantUnprogrammed(v1alpha1.ReasonSecretConflict); strings.Contains(message, "first") {
		t.Errorf("the loser is told the name of the other one: %s", message)
	}
	first.wantNoWrites()
}

func TestAForeignRoleIsLeftAlone(t *testing.T) {
	b := newBench(t)
	foreign := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "lockstead-billing"}}
	environment.Create(t, foreign)
	a := b.application(b.namespace, "billing")
	a.reconcile()
	a.wantUnprogrammed(v1alpha1.ReasonObjectConflict)
	after := foreign.DeepCopy()
	environment.Get(t, after)
	if len(after.Rules) > 0 || a.exists(&corev1.Secret{}, "billing-lock") {
		t.Errorf("the Role of somebody else has rules %v, or a Secret was written", after.Rules)
	}
	remove(t, foreign)
	a.reconcile()
	a.wantReady()
}

func TestWhatPeopleChangeIsPutBack(t *testing.T) {
	b := newBench(t)
	a := b.application(b.namespace, "billing")
	a.reconcile()
	update(t, a.secret(), func(s *corev1.Secret) {
		s.Data["prefix"], s.Data["host"], s.Data["note"] = []byte("lk:{other/app}:"), []byte("evil"), []byte("kept")
		s.Data["epoch"] = []byte("7") // After a restored etcd.
	})
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "lockstead-billing"}}
	update(t, role, func(r *rbacv1.Role) { r.Rules = nil })
	a.reconcile()
	a.wantReady()
	secret := a.secret()
	if got := a.binding(); got.Prefix != a.object.Status.Prefix || got.Lease.Epoch != 7 || string(secret.Data["note"]) != "kept" || secret.Data["host"] != nil {
		t.Errorf("the Secret has %v", secret.Data)
	}
	if environment.Get(t, role); len(role.Rules) == 0 {
		t.Error("the Role has no rules")
	}
	a.wantNoWrites()
	remove(t, secret)
	remove(t, role)
	a.reconcile()
	a.wantReady()
	a.binding()
}

// A default that appears later never moves what is bound, also when the status was lost.
func TestABoundLockNamespaceStaysOnLeases(t *testing.T) {
	b := newBench(t)
	a := b.application(b.namespace, "billing")
	a.reconcile()
	instance, _ := b.redis()
	b.restart(client.ObjectKeyFromObject(instance))
	a.reconcile()
	a.wantReady()
	a.object.Status = v1alpha1.LockNamespaceStatus{}
	if err := environment.Admin.Status().Update(t.Context(), a.object); err != nil {
		t.Fatal(err)
	}
	a.reconcile()
	a.wantReady()
	if a.object.Status.Backend != v1alpha1.BackendLease || a.binding().Type != binding.TypeLease {
		t.Errorf("it moved to %s", a.object.Status.Backend)
	}
}

// The operator may end, or be refused, before any write.
func TestLeaseBindingSurvivesAFailureOfEveryWrite(t *testing.T) {
	failEveryWrite(t, newBench(t), nil)
}

// failEveryWrite binds LockNamespaces, of which one meets a failure at its first write, the next at its second, and so on.
func failEveryWrite(t *testing.T, b *bench, change func(*v1alpha1.LockNamespaceSpec)) {
	t.Helper()
	for n := 0; ; n++ {
		a := b.application(b.namespace, "app-"+string(rune('a'+n)))
		if change != nil {
			remove(t, a.object)
			a = b.application(b.namespace, a.object.Name, change)
		}
		left := n
		b.writes.Fail(func(string) error {
			if left--; left == -1 {
				return apierrors.NewInternalError(errors.New("refused by the test"))
			}
			return nil
		})
		_, err := a.try()
		b.writes.Fail(nil)
		if err == nil {
			if n < 3 {
				t.Fatalf("only %d writes were seen", n)
			}
			a.wantReady()
			return
		}
		a.reconcile()
		a.wantReady()
		a.binding()
		a.wantNoWrites()
	}
}
