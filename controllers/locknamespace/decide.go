// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
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
	// restored: the record was in the Secret, and is not in the status. Whoever can write the Secret could have made it, so it takes nothing
	// from others.
	restored bool
}

// settled reports whether the target has a record that others respect.
func (t target) settled() bool { return t.recorded && !t.restored }

// chooseTarget is the recorded backend, else the owner's for one that shares, else the one that the spec and the operator's default ask for.
func chooseTarget(lns, owner *v1alpha1.LockNamespace, defaultInstance types.NamespacedName) target {
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
	if lns.Spec.ShareFrom != nil {
		t := target{backend: v1alpha1.BackendRedis}
		if owner != nil && owner.Status.Backend == v1alpha1.BackendLease {
			t.backend = v1alpha1.BackendLease
		}
		if owner != nil && owner.Status.InstanceRef != nil {
			ref := owner.Status.InstanceRef
			t.instance = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		}
		return t
	}
	if instance := named(lns); instance.Name != "" {
		return target{backend: v1alpha1.BackendRedis, instance: instance}
	}
	if defaultInstance.Name != "" {
		return target{backend: v1alpha1.BackendRedis, instance: defaultInstance}
	}
	return target{backend: v1alpha1.BackendLease}
}

// named is the RedisInstance that the spec names, or empty.
func named(lns *v1alpha1.LockNamespace) types.NamespacedName {
	ref := lns.Spec.InstanceRef
	if ref == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: cmp.Or(ref.Namespace, lns.Namespace), Name: ref.Name}
}

// verdict is a reason and what it means to people. The zero verdict is no objection.
type verdict struct{ reason, message string }

// evidence is what the decision about a LockNamespace needs beside the object.
type evidence struct {
	// instance is nil when it does not exist.
	instance *v1alpha1.RedisInstance
	// namespaceLabels are those of the LockNamespace's namespace.
	namespaceLabels map[string]string
	// leases: Leases of the prefix exist. Only looked at for what is not settled.
	leases bool
	// owner consents to sharing its keys; ownerLabels are those of its namespace.
	owner       *v1alpha1.LockNamespace
	ownerLabels map[string]string
	claims
}

// check is a reason to refuse a target. Checks know nothing of each other but their order.
type check func(*v1alpha1.LockNamespace, target, evidence) verdict

// checks is in the order in which people have to solve the problems.
var checks = []check{
	shareNotGranted, needsRedis, namespaceReserved, shareOwnerNotReady, shareOwnerMoved, instanceMissing, instanceReplaced, namespaceNotAllowed,
	customPrefixForbidden, ttlAboveMaximum, ttlAboveOwner, prefixTaken, limitReached, leasesExist,
}

func objection(lns *v1alpha1.LockNamespace, t target, e evidence) verdict {
	for _, check := range checks {
		if v := check(lns, t, e); v.reason != "" {
			return v
		}
	}
	return verdict{}
}

func needsRedis(lns *v1alpha1.LockNamespace, t target, _ evidence) verdict {
	switch {
	case t.backend != v1alpha1.BackendLease:
	case lns.Spec.ShareFrom != nil:
		return verdict{v1alpha1.ReasonNeedsRedis, fmt.Sprintf(
			"The locks of LockNamespace %s are kept as Leases, which cannot be shared between namespaces. Create both anew on a RedisInstance.", ownerName(lns))}
	case lns.Spec.Prefix != "":
		return verdict{
			v1alpha1.ReasonNeedsRedis, "spec.prefix needs Redis, and without a RedisInstance the locks would be kept as Leases. " +
				"Create the LockNamespace anew, without spec.prefix or with an instanceRef.",
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

func customPrefixForbidden(lns *v1alpha1.LockNamespace, t target, e evidence) verdict {
	if t.backend != v1alpha1.BackendRedis || t.settled() || lns.Spec.Prefix == "" || e.instance.Spec.Limits.CustomPrefixes == v1alpha1.CustomPrefixesAllowed {
		return verdict{}
	}
	return verdict{v1alpha1.ReasonCustomPrefixForbidden, fmt.Sprintf(
		"RedisInstance %s forbids spec.prefix. Create the LockNamespace anew without it, or ask the owner of the RedisInstance to set limits.customPrefixes: Allowed.", t.instance)}
}

// prefixTaken does not say by whom: that is for the owner of the RedisInstance to know.
func prefixTaken(lns *v1alpha1.LockNamespace, t target, e evidence) verdict {
	if t.backend != v1alpha1.BackendRedis || e.holder == nil || e.holder.UID == keysOf(lns, e).UID {
		return verdict{}
	}
	return verdict{v1alpha1.ReasonPrefixTaken, fmt.Sprintf(
		"Another LockNamespace of RedisInstance %s has the prefix %s. Create this one anew with another spec.prefix or name, or ask the owner of the RedisInstance, which has an event about it. To share the locks of the other, use spec.shareFrom.",
		t.instance, redisinstance.PrefixOf(lns))}
}

func limitReached(_ *v1alpha1.LockNamespace, t target, e evidence) verdict {
	if t.backend != v1alpha1.BackendRedis || t.settled() {
		return verdict{}
	}
	limit := int(e.instance.Spec.Limits.MaxLockNamespaces)
	if limit == 0 || e.bound < limit {
		return verdict{}
	}
	return verdict{v1alpha1.ReasonLimitReached, fmt.Sprintf(
		"As many LockNamespaces as RedisInstance %s allows are bound to it. Ask its owner to raise limits.maxLockNamespaces.", t.instance)}
}

func leasesExist(_ *v1alpha1.LockNamespace, t target, e evidence) verdict {
	if t.settled() || t.backend != v1alpha1.BackendRedis || !e.leases {
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
