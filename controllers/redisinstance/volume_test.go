// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"context"
	"net"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// storageClass makes a class whose volumes can grow, or cannot.
func storageClass(t *testing.T, expandable bool) string {
	t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "class-"}, Provisioner: "example.com/none", AllowVolumeExpansion: &expandable}
	environment.Create(t, class)
	t.Cleanup(func() { _ = environment.Admin.Delete(context.Background(), class) })
	return class.Name
}

// claim makes the claim that the StatefulSet would make, with a volume of its size.
func (b *bench) claim(class string, labels map[string]string) *corev1.PersistentVolumeClaim {
	b.t.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "data-locks-redis-0", Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	environment.Create(b.t, claim)
	b.bind(claim, "1Gi")
	return claim
}

// bind gives the claim a volume of a size, as a provisioner does.
func (b *bench) bind(claim *corev1.PersistentVolumeClaim, size string) {
	b.t.Helper()
	environment.Get(b.t, claim)
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	if err := environment.Admin.Status().Update(b.t.Context(), claim); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) size(size string) {
	b.t.Helper()
	b.change(func(m *v1alpha1.ManagedServer) {
		if m.Storage == nil {
			m.Storage = &v1alpha1.Storage{}
		}
		m.Storage.Size = new(resource.MustParse(size))
	})
}

func ownLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "lockstead-redis", "lockstead.dev/redisinstance": "locks"}
}

func TestAVolumeGrows(t *testing.T) {
	b := newBench(t, managed())
	b.reconcile()
	b.wantCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonRolling)
	b.startPod()
	claim := b.claim(storageClass(t, true), ownLabels())
	b.reconcile()
	b.wantReady()
	b.wantCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonStable)
	statefulSet := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "locks-redis"}}
	environment.Get(t, statefulSet)

	b.size("2Gi")
	b.reconcile()
	b.wantReady()
	message := b.wantCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonResizing).Message
	environment.Get(t, claim)
	if asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]; asked.String() != "2Gi" || !strings.Contains(message, "from 1Gi to 2Gi") {
		t.Errorf("the claim asks for %s; message %q", asked.String(), message)
	}
	b.wantNoWrites()
	b.bind(claim, "2Gi")
	b.reconcile()
	b.wantCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonStable)
	b.wantNoWrites()
	same := &appsv1.StatefulSet{ObjectMeta: statefulSet.ObjectMeta}
	environment.Get(t, same)
	if same.UID != statefulSet.UID || same.Generation != statefulSet.Generation {
		t.Error("the StatefulSet was changed, which restarts the pod")
	}
	// One that is larger than wanted, as of a RedisInstance that was there before, stays.
	b.bind(claim, "8Gi")
	b.reconcile()
	b.wantCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonStable)
	b.wantNoWrites()
}

func TestAVolumeThatCannotGrow(t *testing.T) {
	for name, tc := range map[string]struct {
		expandable bool
		labels     map[string]string
		want       string
	}{
		"the class forbids it":       {false, ownLabels(), "must support resize"},
		"the claim is somebody's":    {true, map[string]string{"app": "other"}, "was not made for this RedisInstance"},
		"the claim has no labels":    {true, nil, "was not made for this RedisInstance"},
		"it is of another of theirs": {true, map[string]string{"app.kubernetes.io/name": "lockstead-redis", "lockstead.dev/redisinstance": "other"}, "was not made for"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, managed())
			b.reconcile()
			b.startPod()
			claim := b.claim(storageClass(t, tc.expandable), tc.labels)
			b.size("2Gi")
			b.reconcile()
			b.wantReady()
			if message := b.wantCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonResizeRefused).Message; !strings.Contains(message, tc.want) {
				t.Errorf("message is %q", message)
			}
			environment.Get(t, claim)
			if asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]; asked.String() != "1Gi" {
				t.Errorf("the claim asks for %s", asked.String())
			}
		})
	}
}

// An address of IPv6 needs brackets in one place, and must not have them in another.
func TestAServerWithAnIPv6Address(t *testing.T) {
	server := redistest.Start(t, &redistest.Options{Config: []string{"bind 127.0.0.1 ::1"}})
	spec := external()
	spec.External.Host = "::1"
	_, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, spec)
	b.dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "[::1]:6379" {
			t.Errorf("the operator dials %q", address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("::1", port))
	}
	b.secret("admin", map[string]string{"username": "admin", "password": server.AdminPassword()})
	b.reconcile()
	b.wantReady()
	a := b.application("billing")
	grant, err := b.tenants.Program(t.Context(), b.instance, a.tenant())
	if err != nil {
		t.Fatal(err)
	}
	if grant.Server.Host != "::1" || grant.Server.Address() != "[::1]:6379" || !strings.Contains(grant.Server.URI(), "@[::1]:6379") {
		t.Errorf("the binding has host %s, address %s", grant.Server.Host, grant.Server.Address())
	}
}
