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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/controllertest"
	"github.com/lockstead/lockstead/pkg/binding"
)

func TestWithoutRedisLocksAreLeases(t *testing.T) {
	b := leaseBench(t)
	lns := b.create("billing", nil)
	b.reconcile(lns)
	if events := b.events(); len(events) != 1 || !strings.HasPrefix(events[0], "Normal Ready") {
		t.Errorf("told %v, want one event", events)
	}
	b.ready(lns)

	secret, got := b.secret(lns), b.binding(lns)
	want := binding.Binding{
		Type: binding.TypeLease, LockNamespace: b.namespace + "/billing", Prefix: "lk:{" + b.namespace + "/billing}:", Instance: "lease",
		TTLDefault: 30 * time.Second, TTLMax: time.Hour, Lease: got.Lease,
	}
	if *got != want || got.Lease.Epoch != 1 || got.Lease.FallbackCondition != "NoRedisConfigured" || got.Lease.FallbackFix == "" {
		t.Errorf("the binding is %+v %+v", got, got.Lease)
	}
	if secret.Type != "servicebinding.io/lease" || !metav1.IsControlledBy(secret, lns) {
		t.Errorf("the Secret is %s, owned by %v", secret.Type, secret.OwnerReferences)
	}
	if s := lns.Status; s.Backend != v1alpha1.BackendLease || s.Prefix != want.Prefix || s.Binding == nil || s.Binding.Name != secret.Name || s.InstanceRef != nil {
		t.Errorf("the status is %+v", s)
	}
	for _, child := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		child.SetNamespace(b.namespace)
		child.SetName("lockstead-billing")
		environment.Get(t, child)
		if !metav1.IsControlledBy(child, lns) {
			t.Errorf("%T is owned by %v", child, child.GetOwnerReferences())
		}
	}
}

// as is a client with the rights of a service account.
func as(t *testing.T, namespace, account string) client.Client {
	t.Helper()
	config := rest.CopyConfig(environment.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + account}
	c, err := client.New(config, client.Options{Scheme: controllertest.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConsumersMayLockAndOthersMayNot(t *testing.T) {
	b := leaseBench(t)
	lns := b.create("billing", func(lns *v1alpha1.LockNamespace) { lns.Spec.Consumers = []string{"worker", "cron"} })
	b.ready(lns)
	may := func(account string) bool {
		t.Helper()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, GenerateName: "x-"}}
		err := as(t, b.namespace, account).Create(t.Context(), lease)
		if err != nil && !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	if !may("worker") || !may("cron") || may("default") {
		t.Error("not exactly the consumers may write Leases")
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "billing-lock"}}
	if err := as(t, b.namespace, "worker").Get(t.Context(), client.ObjectKeyFromObject(secret), secret); !apierrors.IsForbidden(err) {
		t.Errorf("a consumer reads Secrets: %v", err)
	}

	lns.Spec.Consumers = []string{"cron", "default"}
	if err := environment.Admin.Update(t.Context(), lns); err != nil {
		t.Fatal(err)
	}
	b.ready(lns)
	if may("worker") || !may("cron") || !may("default") {
		t.Error("a change of consumers did not reach the RoleBinding")
	}
}

func TestALaterDefaultMovesNothing(t *testing.T) {
	namespace := environment.Namespace(t, nil)
	before := newBench(t, namespace, types.NamespacedName{})
	lns := before.create("billing", nil)
	before.ready(lns)

	after := newBench(t, namespace, types.NamespacedName{Namespace: namespace, Name: "locks"})
	after.instance(nil)
	after.ready(lns)
	if after.binding(lns).Type != binding.TypeLease {
		t.Error("the binding moved to Redis")
	}
	// Neither does it move when the status is lost.
	lns.Status = v1alpha1.LockNamespaceStatus{}
	if err := environment.Admin.Status().Update(t.Context(), lns); err != nil {
		t.Fatal(err)
	}
	after.ready(lns)
	if after.binding(lns).Type != binding.TypeLease || lns.Status.Backend != v1alpha1.BackendLease {
		t.Error("the binding moved to Redis after the status was lost")
	}
}

func TestReservedNamespaces(t *testing.T) {
	b := newBench(t, environment.Namespace(t, nil, "kube-test-"), types.NamespacedName{})
	lns := b.create("billing", nil)
	b.reconcile(lns)
	b.wantRefused(lns, v1alpha1.ReasonNamespaceReserved)
	b.wantNoSecret(lns)
}

func TestASecretThatWasEditedIsRepaired(t *testing.T) {
	b := leaseBench(t)
	lns := b.create("billing", nil)
	b.ready(lns)
	secret := b.secret(lns)
	secret.Data[binding.KeyPrefix] = []byte("lk:{other/app}:")
	secret.Data[binding.KeyHost] = []byte("evil.example.com")
	secret.Data[binding.KeyEpoch] = []byte("5")
	secret.Data["note"] = []byte("of the application's team")
	delete(secret.Data, binding.KeyTTLMax)
	if err := environment.Admin.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	b.ready(lns)
	secret = b.secret(lns)
	if string(secret.Data["note"]) == "" || len(secret.Data[binding.KeyHost]) > 0 {
		t.Error("other people's entries were not kept, or a foreign one of the layout was")
	}
	if got := b.binding(lns); got.Prefix != lns.Status.Prefix || got.Lease.Epoch != 5 {
		t.Errorf("prefix %s and epoch %d; want the prefix repaired and the raised epoch kept", got.Prefix, got.Lease.Epoch)
	}
	if err := environment.Admin.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	b.ready(lns)
}

func TestForeignObjectsAreLeftAlone(t *testing.T) {
	b := leaseBench(t)
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "other"}}
	environment.Create(t, other)
	for name, tc := range map[string]struct {
		object client.Object
		reason string
	}{
		"secret": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret-lock"}, StringData: map[string]string{"a": "b"}}, v1alpha1.ReasonSecretConflict},
		"role":   {&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "lockstead-role"}}, v1alpha1.ReasonObjectConflict},
		"binding": {&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "lockstead-binding"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "x"},
		}, v1alpha1.ReasonObjectConflict},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, b.namespace, types.NamespacedName{})
			tc.object.SetNamespace(b.namespace)
			environment.Create(t, tc.object)
			version := tc.object.GetResourceVersion()
			lns := b.create(name, nil)
			if result := b.reconcile(lns); result.RequeueAfter == 0 {
				t.Error("the conflict is not looked at again")
			}
			b.wantNotProgrammed(lns, tc.reason)
			b.wantNoWrites(lns)
			b.wantNoSecret(lns)
			environment.Get(t, tc.object)
			if tc.object.GetResourceVersion() != version {
				t.Error("the foreign object was changed")
			}
			if err := environment.Admin.Delete(t.Context(), tc.object); err != nil {
				t.Fatal(err)
			}
			b.ready(lns)
		})
	}
}

// The Secret of a deleted LockNamespace of the same name is foreign to the next: it goes by its owner reference first.
func TestTheSecretOfAnEarlierObjectIsForeign(t *testing.T) {
	b := leaseBench(t)
	first := b.create("billing", nil)
	b.ready(first)
	if err := environment.Admin.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	second := b.create("billing", nil)
	b.reconcile(second)
	b.wantNotProgrammed(second, v1alpha1.ReasonSecretConflict)
}

var errPower = errors.New("power cut")

// The operator is ended after each of its writes in turn, and goes on from there.
func TestEveryStepCanBeTheLast(t *testing.T) {
	for allowed := 0; ; allowed++ {
		b := leaseBench(t)
		lns := b.create("billing", nil)
		left := allowed
		b.writes.Fail(func(string) error {
			if left--; left < 0 {
				return errPower
			}
			return nil
		})
		_, err := b.attempt(lns)
		b.writes.Fail(nil)
		if err != nil && !errors.Is(err, errPower) {
			t.Fatal(err)
		}
		b.ready(lns)
		if err == nil {
			if allowed < 5 {
				t.Errorf("binding took %d writes; want the record, Role, RoleBinding, Secret and status", allowed)
			}
			return
		}
	}
}

func TestFaultsAreToldAndTriedAgain(t *testing.T) {
	b := leaseBench(t)
	lns := b.create("billing", nil)
	b.writes.Fail(func(write string) error {
		if write == "create *v1.Secret" {
			return errPower
		}
		return nil
	})
	if _, err := b.attempt(lns); !errors.Is(err, errPower) {
		t.Errorf("error is %v, so it is not tried again", err)
	}
	b.wantNotProgrammed(lns, v1alpha1.ReasonProgramFailed)
	b.writes.Fail(nil)
	b.ready(lns)
}

func TestADecisionFromAnOldViewIsNotRecorded(t *testing.T) {
	b := leaseBench(t)
	lns := b.create("billing", nil)
	old := lns.DeepCopy()
	lns.Status.Backend, lns.Status.Prefix = v1alpha1.BackendRedis, "lk:{a/b}:"
	if err := environment.Admin.Status().Update(t.Context(), lns); err != nil {
		t.Fatal(err)
	}
	if _, err := b.controller.Reconcile(t.Context(), old); !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want a conflict", err)
	}
	b.wantNoSecret(lns)
}
