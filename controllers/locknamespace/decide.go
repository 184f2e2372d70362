// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// target is the backend that a LockNamespace has, or would have.
type target struct {
	backend v1alpha1.Backend
	// instance is set for Redis.
	instance types.NamespacedName
	// uid is set for a recorded instance.
	uid types.UID
	// recorded: the LockNamespace is bound.
	recorded bool
}

// chooseTarget is the recorded backend, else the one that the spec and the operator's default ask for.
func chooseTarget(lns *v1alpha1.LockNamespace, defaultInstance types.NamespacedName) target {
	if lns.Status.Backend == v1alpha1.BackendRedis && lns.Status.InstanceRef != nil {
		bound := lns.Status.InstanceRef
		return target{
			backend: v1alpha1.BackendRedis, recorded: true, uid: types.UID(bound.UID),
			instance: types.NamespacedName{Namespace: bound.Namespace, Name: bound.Name},
		}
	}
	if lns.Status.Backend == v1alpha1.BackendLease {
		return target{backend: v1alpha1.BackendLease, recorded: true}
	}
	if ref := lns.Spec.InstanceRef; ref != nil {
		namespace := ref.Namespace
		if namespace == "" {
			namespace = lns.Namespace
		}
		return target{backend: v1alpha1.BackendRedis, instance: types.NamespacedName{Namespace: namespace, Name: ref.Name}}
	}
	if defaultInstance.Name != "" {
		return target{backend: v1alpha1.BackendRedis, instance: defaultInstance}
	}
	return target{backend: v1alpha1.BackendLease}
}

// verdict is a reason and what it means to people. The zero verdict is no objection.
type verdict struct{ reason, message string }

// evidence is what the decision about a LockNamespace needs beside the object.
type evidence struct {
	// instance is nil when it does not exist.
	instance *v1alpha1.RedisInstance
	// namespaceLabels are those of the LockNamespace's namespace.
	namespaceLabels map[string]string
	// leases: Leases of the prefix exist. Only looked at for what is not recorded yet.
	leases bool
}

// check is a reason to refuse a target. Checks know nothing of each other but their order.
type check func(*v1alpha1.LockNamespace, target, evidence) verdict

// checks is in the order in which people have to solve the problems.
var checks = []check{namespaceReserved, instanceMissing, instanceReplaced, namespaceNotAllowed, ttlAboveMaximum, leasesExist}

func objection(lns *v1alpha1.LockNamespace, t target, e evidence) verdict {
	for _, check := range checks {
		if v := check(lns, t, e); v.reason != "" {
			return v
		}
	}
	return verdict{}
}

func namespaceReserved(lns *v1alpha1.LockNamespace, t target, _ evidence) verdict {
	if t.backend != v1alpha1.BackendLease || !strings.HasPrefix(lns.Namespace, "kube-") {
		return verdict{}
	}
	return verdict{
		v1alpha1.ReasonNamespaceReserved,
		"Namespaces that begin with \"kube-\" hold the Leases of the cluster's own elections, so no right to write Leases is granted here. " +
			"Create the LockNamespace in another namespace, or with an instanceRef.",
	}
}

func instanceMissing(_ *v1alpha1.LockNamespace, t target, e evidence) verdict {
	if t.backend != v1alpha1.BackendRedis || e.instance != nil {
		return verdict{}
	}
	if t.recorded {
		return verdict{v1alpha1.ReasonInstanceNotFound, fmt.Sprintf(
			"RedisInstance %s, to which this LockNamespace is bound, does not exist. To use another one, scale the application to zero, delete the LockNamespace and create it anew.", t.instance)}
	}
	return verdict{v1alpha1.ReasonInstanceNotFound, fmt.Sprintf(
		"RedisInstance %s does not exist. Create it, or create the LockNamespace anew with the right instanceRef. Until then there is no binding.", t.instance)}
}

func instanceReplaced(_ *v1alpha1.LockNamespace, t target, e evidence) verdict {
	if t.backend != v1alpha1.BackendRedis || !t.recorded || e.instance.UID == t.uid {
		return verdict{}
	}
	return verdict{v1alpha1.ReasonInstanceReplaced, fmt.Sprintf(
		"RedisInstance %s is not the one to which this LockNamespace was bound: it was deleted and created anew. Scale the application to zero, delete the LockNamespace and create it anew.", t.instance)}
}

func namespaceNotAllowed(lns *v1alpha1.LockNamespace, t target, e evidence) verdict {
	if t.backend != v1alpha1.BackendRedis || allows(e.instance, lns.Namespace, e.namespaceLabels) {
		return verdict{}
	}
	return verdict{v1alpha1.ReasonNotAllowedByInstance, fmt.Sprintf(
		"RedisInstance %s does not allow namespace %s. Ask its owner to add it to spec.allowedNamespaces.", t.instance, lns.Namespace)}
}

func ttlAboveMaximum(lns *v1alpha1.LockNamespace, t target, e evidence) verdict {
	if t.backend != v1alpha1.BackendRedis {
		return verdict{}
	}
	limit := e.instance.Spec.Limits.MaxTTL.Duration
	if limit == 0 || lns.Spec.TTL.Max.Duration <= limit {
		return verdict{}
	}
	return verdict{v1alpha1.ReasonTTLAboveInstanceMaximum, fmt.Sprintf(
		"spec.ttl.max is %s, and RedisInstance %s allows at most %s. Lower spec.ttl.max.", lns.Spec.TTL.Max.Duration, t.instance, limit)}
}

func leasesExist(_ *v1alpha1.LockNamespace, t target, e evidence) verdict {
	if t.recorded || t.backend != v1alpha1.BackendRedis || !e.leases {
		return verdict{}
	}
	return verdict{
		v1alpha1.ReasonLeasesExist,
		"Leases of this LockNamespace's locks exist, so a replica may hold a lock that Redis would grant a second time. " +
			"Stop the application; the binding follows when the Leases have run out or were deleted.",
	}
}

// allows reports whether the owner of instance consents to LockNamespaces of a namespace.
func allows(instance *v1alpha1.RedisInstance, namespace string, namespaceLabels map[string]string) bool {
	allowed := instance.Spec.AllowedNamespaces
	switch allowed.From {
	case v1alpha1.NamespacesAll:
		return true
	case v1alpha1.NamespacesSelector:
		selector, err := metav1.LabelSelectorAsSelector(allowed.Selector)
		return err == nil && selector.Matches(labels.Set(namespaceLabels))
	default:
		return instance.Namespace == namespace
	}
}
