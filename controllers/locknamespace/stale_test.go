// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// A cache may still show a LockNamespace as unbound after another operator has bound it. What is decided from that is not recorded, and
// nothing is made for it.
func TestADecisionFromAnOldViewIsNotRecorded(t *testing.T) {
	b := newBench(t)
	a := b.application(b.namespace, "billing")
	old := a.object.DeepCopy()
	a.object.Status.Backend = v1alpha1.BackendRedis
	a.object.Status.InstanceRef = &v1alpha1.BoundInstance{Namespace: b.namespace, Name: "locks", UID: "uid"}
	if err := environment.Admin.Status().Update(t.Context(), a.object); err != nil {
		t.Fatal(err)
	}
	if _, err := a.controller.Reconcile(a.ctx, old); !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want a conflict", err)
	}
	environment.Get(t, a.object)
	if a.object.Status.Backend != v1alpha1.BackendRedis || a.exists(&corev1.Secret{}, "billing-lock") {
		t.Errorf("it was bound anew: %+v", a.object.Status)
	}
}
