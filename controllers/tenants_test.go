// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// What one LockNamespace gets or loses by a change of another is noticed through watches.
func TestTenantsInARunningOperator(t *testing.T) {
	server := redistest.Start(t, nil)
	startOperator(t, server.Addr())
	namespace := environment.Namespace(t, nil)
	instance := &v1alpha1.RedisInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "locks"}, Spec: v1alpha1.RedisInstanceSpec{
		Mode:   v1alpha1.ModeExternal,
		Limits: v1alpha1.InstanceLimits{MaxLockNamespaces: 3, CustomPrefixes: v1alpha1.CustomPrefixesAllowed},
		External: &v1alpha1.ExternalServer{
			Host: "redis.example.com", TLS: v1alpha1.ExternalTLS{Mode: v1alpha1.TLSDisabled}, AdminCredentials: v1alpha1.AdminCredentials{SecretName: "admin"},
		},
	}}
	environment.Create(t, instance, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "admin", Labels: map[string]string{redisinstance.LabelCredentials: "true"}},
		StringData: map[string]string{"username": "admin", "password": server.AdminPassword()},
	})
	owner := lockNamespace(namespace, "a-owner", "locks")
	owner.Spec.Prefix = "team/a"
	owner.Spec.ShareWith = []v1alpha1.ShareGrant{{Namespace: namespace, Name: "another"}}
	environment.Create(t, owner)
	awaitReason(t, owner, v1alpha1.ReasonReady)
	heir := lockNamespace(namespace, "heir", "locks")
	heir.Spec.Prefix = "team/a"
	sharer := lockNamespace(namespace, "sharer", "")
	sharer.Spec.ShareFrom = &v1alpha1.LockNamespaceReference{Namespace: namespace, Name: "a-owner"}
	environment.Create(t, heir, sharer)
	awaitReason(t, heir, v1alpha1.ReasonPrefixTaken)
	awaitReason(t, sharer, v1alpha1.ReasonShareNotGranted)

	environment.Get(t, owner)
	owner.Spec.ShareWith[0].Name = "sharer"
	if err := environment.Admin.Update(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	awaitReason(t, sharer, v1alpha1.ReasonReady)
	third, fourth := lockNamespace(namespace, "third", "locks"), lockNamespace(namespace, "fourth", "locks")
	environment.Create(t, third)
	awaitReason(t, third, v1alpha1.ReasonReady)
	environment.Create(t, fourth)
	awaitReason(t, fourth, v1alpha1.ReasonLimitReached)

	environment.Get(t, sharer)
	if err := environment.Admin.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	awaitReason(t, sharer, v1alpha1.ReasonShareNotGranted)
	// Two wait for its place, and then for the place of another.
	if err := environment.Admin.Delete(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	awaitReason(t, heir, v1alpha1.ReasonReady)
	awaitReason(t, fourth, v1alpha1.ReasonReady)
	environment.Get(t, heir)
	if heir.Status.Prefix != "lk:{team/a}:" {
		t.Errorf("the prefix is %s", heir.Status.Prefix)
	}
	users, err := server.Admin(t).Do(t.Context(), "ACL", "USERS").StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(users, " "); strings.Contains(text, sharer.Status.Username) || !strings.Contains(text, heir.Status.Username) {
		t.Errorf("the server has users %v", users)
	}
}
