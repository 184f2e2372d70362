// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/binding"
)

// Labels of what is made for a LockNamespace.
const (
	labelManagedBy     = "app.kubernetes.io/managed-by"
	managedBy          = "lockstead"
	labelLockNamespace = "lockstead.dev/locknamespace"
)

// annotationInstance of the Secret repeats status.instanceRef, for a status that was lost.
const annotationInstance = "lockstead.dev/redisinstance"

// leaseInstance is the identity of the Lease backend: the Leases of one namespace and prefix are the same locks, whoever made the binding.
const leaseInstance = "lease"

// What a Lease binding tells people.
const (
	fallbackCondition = "NoRedisConfigured"
	fallbackFix       = "have the platform team create a RedisInstance, then scale the application to zero, delete the LockNamespace and create it " +
		"anew, with spec.instanceRef if that RedisInstance is not the operator's default one"
)

// usernameOf is the user on the Redis server. It follows from the UID, never from the status, in which somebody could name the user of another.
func usernameOf(lns *v1alpha1.LockNamespace) string { return redisadmin.TenantUser(string(lns.UID)) }

func secretName(lns *v1alpha1.LockNamespace) string {
	if lns.Spec.Binding.SecretName != "" {
		return lns.Spec.Binding.SecretName
	}
	return lns.Name + "-lock"
}

// roleName is what the Lease driver names in its errors about missing rights.
func roleName(lns *v1alpha1.LockNamespace) string { return "lockstead-" + lns.Name }

func childLabels(lns *v1alpha1.LockNamespace) map[string]string {
	return map[string]string{labelManagedBy: managedBy, labelLockNamespace: lns.Name}
}

// leaseRules are exactly what the Lease driver does. RBAC cannot limit a create by name, so they are for the namespace.
func leaseRules() *rbacv1ac.PolicyRuleApplyConfiguration {
	return rbacv1ac.PolicyRule().WithAPIGroups(coordinationv1.GroupName).WithResources("leases").
		WithVerbs("get", "list", "watch", "create", "update", "delete")
}

func desiredRole(lns *v1alpha1.LockNamespace) *rbacv1ac.RoleApplyConfiguration {
	return rbacv1ac.Role(roleName(lns), lns.Namespace).
		WithLabels(childLabels(lns)).WithOwnerReferences(controllerReference(lns)).WithRules(leaseRules())
}

func desiredRoleBinding(lns *v1alpha1.LockNamespace) *rbacv1ac.RoleBindingApplyConfiguration {
	desired := rbacv1ac.RoleBinding(roleName(lns), lns.Namespace).
		WithLabels(childLabels(lns)).WithOwnerReferences(controllerReference(lns)).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(roleName(lns)))
	for _, consumer := range lns.Spec.Consumers {
		desired.WithSubjects(rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(lns.Namespace).WithName(consumer))
	}
	return desired
}

func controllerReference(lns *v1alpha1.LockNamespace) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("LockNamespace").
		WithName(lns.Name).WithUID(lns.UID).WithController(true).WithBlockOwnerDeletion(true)
}

// baseBinding is what bindings of both types have.
func baseBinding(lns *v1alpha1.LockNamespace, prefix string) *binding.Binding {
	return &binding.Binding{
		LockNamespace: lns.Namespace + "/" + lns.Name,
		Prefix:        prefix,
		TTLDefault:    lns.Spec.TTL.Default.Duration,
		TTLMax:        lns.Spec.TTL.Max.Duration,
	}
}

// leaseBinding is the binding to Leases. An epoch that people raised in the present entries, after they restored etcd, is kept: fencing
// tokens must not shrink.
func leaseBinding(lns *v1alpha1.LockNamespace, present map[string][]byte) *binding.Binding {
	b := baseBinding(lns, redisinstance.PrefixOf(lns))
	b.Type, b.Instance = binding.TypeLease, leaseInstance
	b.Lease = &binding.Lease{Epoch: 1, FallbackCondition: fallbackCondition, FallbackFix: fallbackFix}
	if epoch, err := strconv.ParseUint(string(present[binding.KeyEpoch]), 10, 64); err == nil {
		b.Lease.Epoch = max(b.Lease.Epoch, epoch)
	}
	return b
}

// redisBinding is the binding to a server.
func redisBinding(lns *v1alpha1.LockNamespace, prefix string, instance *v1alpha1.RedisInstance, server binding.Redis) *binding.Binding {
	b := baseBinding(lns, prefix)
	b.Type, b.Instance, b.Redis = binding.TypeRedis, string(instance.UID), &server
	return b
}
