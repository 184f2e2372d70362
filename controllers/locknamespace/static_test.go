// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
)

// All applications get the user that they share, and are told that nothing keeps them apart.
func TestWithoutUsersOfTheirOwnIsolationIsNotEnforced(t *testing.T) {
	b := newBench(t)
	environment.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "app", Labels: map[string]string{redisinstance.LabelCredentials: "true"}},
		StringData: map[string]string{"username": "everybody", "password": "everybody's"},
	})
	instance, server := b.redis(func(spec *v1alpha1.RedisInstanceSpec) {
		spec.External.ACLManagement = v1alpha1.ACLManagementStatic
		spec.External.TenantCredentials = &v1alpha1.TenantCredentials{SecretName: "app"}
	})
	a := b.application(b.namespace, "billing", on(instance))
	a.reconcile()
	if message := a.wantCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonNotEnforced); !strings.Contains(message, "convention") {
		t.Errorf("message is %q", message)
	}
	a.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	if got := a.binding(); got.Redis.Username != "everybody" || got.Redis.Password != "everybody's" {
		t.Errorf("the binding is for %s", got.Redis)
	}
	a.wantNoWrites()
	// A rotation that nobody can do is told.
	update(t, a.object, func(lns *v1alpha1.LockNamespace) { lns.Spec.Credentials.RotationCounter = 1 })
	a.reconcile()
	if message := a.wantCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonNotEnforced); !strings.Contains(message, "not rotated") {
		t.Errorf("message is %q", message)
	}
	if a.object.Status.Credentials != nil || a.binding().Redis.Password != "everybody's" {
		t.Error("the password of all was rotated")
	}
	a.wantNoWrites()

	// When the operator administers the users, the LockNamespace gets a user and a password of its own.
	update(t, instance, func(i *v1alpha1.RedisInstance) {
		i.Spec.External.ACLManagement, i.Spec.External.TenantCredentials = v1alpha1.ACLManagementOperator, nil
	})
	b.examine(instance)
	a.reconcile()
	a.wantReady()
	if got := a.binding().Redis; got.Username != a.object.Status.Username || got.Password == "everybody's" {
		t.Errorf("the binding is for %s, with the password of all: %t", got, got.Password == "everybody's")
	}
	if err := a.acquire(server, a.object.Status.Prefix, "key"); err != nil {
		t.Errorf("acquire: %v", err)
	}
}
