// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// protect installs the admission policy as it is published, and waits until the API server goes by it.
func protect(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../config/admission/redisinstance-in-use.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := environment.Admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = environment.Admin.Delete(context.Background(), object) })
	}
	// It comes into force a moment later; a dry run asks without deleting.
	b := newBench(t, managed())
	b.setUsers(1)
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsForbidden(environment.Admin.Delete(ctx, b.instance, client.DryRunAll)), nil
	})
	if err != nil {
		t.Fatalf("the policy does not come into force: %v", err)
	}
}

func (b *bench) setUsers(n int32) {
	b.t.Helper()
	environment.Get(b.t, b.instance)
	b.instance.Status.LockNamespaces = n
	if err := environment.Admin.Status().Update(b.t.Context(), b.instance); err != nil {
		b.t.Fatal(err)
	}
}

func TestARedisInstanceInUseIsNotDeleted(t *testing.T) {
	protect(t)
	b, _ := externalBench(t)
	b.reconcile()
	b.wantCondition(v1alpha1.ConditionDeletionBlocked, metav1.ConditionFalse, v1alpha1.ReasonNotInUse)
	a := b.application("billing")
	b.reconcile()
	user := b.namespace + "/billing"
	if condition := b.wantCondition(v1alpha1.ConditionDeletionBlocked, metav1.ConditionTrue, v1alpha1.ReasonInUse); !strings.Contains(condition.Message, user) {
		t.Errorf("message is %q", condition.Message)
	}
	for what, err := range map[string]error{
		"one":         environment.Admin.Delete(t.Context(), b.instance),
		"many":        environment.Admin.DeleteAllOf(t.Context(), &v1alpha1.RedisInstance{}, client.InNamespace(b.namespace)),
		"one in ways": environment.Admin.Delete(t.Context(), b.instance, client.PropagationPolicy(metav1.DeletePropagationForeground)),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "in use by 1 LockNamespaces") || !strings.Contains(err.Error(), "deletionProtection: Disabled") {
			t.Errorf("deletion of %s: %v", what, err)
		}
	}
	if err := environment.Admin.Delete(t.Context(), a.namespace); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.wantCondition(v1alpha1.ConditionDeletionBlocked, metav1.ConditionFalse, v1alpha1.ReasonNotInUse)
	if err := environment.Admin.Delete(t.Context(), b.instance); err != nil {
		t.Errorf("deletion when nobody uses it: %v", err)
	}
}

func TestProtectionCanBeDisabled(t *testing.T) {
	protect(t)
	b := newBench(t, managed())
	b.setUsers(1)
	b.instance.Spec.DeletionProtection = v1alpha1.DeletionDisabled
	if err := environment.Admin.Update(t.Context(), b.instance); err != nil {
		t.Fatal(err)
	}
	b.application("billing")
	b.reconcile()
	b.wantCondition(v1alpha1.ConditionDeletionBlocked, metav1.ConditionFalse, v1alpha1.ReasonProtectionDisabled)
	if err := environment.Admin.Delete(t.Context(), b.instance); err != nil {
		t.Error(err)
	}
}

// The API server of the tests has no controllers, so the namespace stays; what its controller does is to delete the objects.
func TestANamespaceThatGoesIsNotHeldUp(t *testing.T) {
	protect(t)
	b := newBench(t, managed())
	b.setUsers(1)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	if err := environment.Admin.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	// The policy sees the namespace a moment later.
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return environment.Admin.Delete(ctx, b.instance) == nil, nil
	})
	if err != nil {
		t.Errorf("the RedisInstance of a namespace that goes is held up: %v", err)
	}
}
