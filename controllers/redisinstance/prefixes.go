// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// PrefixOf begins the keys of a LockNamespace that has keys of its own, on every backend. It follows from name and spec, never from the status, in
// which somebody could name the prefix of another. One that shares has the prefix of the owner, which is what PrefixOf gives for the owner.
func PrefixOf(namespace *v1alpha1.LockNamespace) string {
	return redisproto.Prefix(keyRoot, cmp.Or(namespace.Spec.Prefix, namespace.Namespace+"/"+namespace.Name))
}

// HasPrefix reports whether a LockNamespace has keys of its own, and they begin with prefix. One that shares the keys of another has none.
func HasPrefix(namespace *v1alpha1.LockNamespace, prefix string) bool {
	return namespace.Spec.ShareFrom == nil && PrefixOf(namespace) == prefix
}

// BoundTo reports whether a LockNamespace is recorded as bound to the RedisInstance with this UID.
func BoundTo(namespace *v1alpha1.LockNamespace, instance types.UID) bool {
	ref := namespace.Status.InstanceRef
	return ref != nil && ref.UID == string(instance)
}

// HolderOf is the LockNamespace that has a prefix on the server of instance: the oldest that is bound to it. There is one at most unless records
// come from backups, or from two operators. Nil is nobody.
func HolderOf(prefix string, instance types.UID, all []v1alpha1.LockNamespace) *v1alpha1.LockNamespace {
	var holder *v1alpha1.LockNamespace
	for i := range all {
		if namespace := &all[i]; BoundTo(namespace, instance) && HasPrefix(namespace, prefix) && (holder == nil || Older(namespace, holder)) {
			holder = namespace
		}
	}
	return holder
}

// Older orders LockNamespaces by age, and by namespace and name in the same second.
func Older(a, b *v1alpha1.LockNamespace) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}

// holders picks those that have a prefix on the server of their instance out of the LockNamespaces that are bound to it.
func holders(bound []v1alpha1.LockNamespace) []v1alpha1.LockNamespace {
	of := map[string]int{}
	var picked []v1alpha1.LockNamespace
	for i := range bound {
		namespace := &bound[i]
		prefix := PrefixOf(namespace)
		have, taken := of[prefix]
		switch {
		case namespace.Spec.ShareFrom != nil:
		case !taken:
			of[prefix] = len(picked)
			picked = append(picked, *namespace)
		case Older(namespace, &picked[have]):
			picked[have] = *namespace
		}
	}
	return picked
}
