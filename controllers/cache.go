// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// CacheOptions keep other people's objects out of the operator's memory: it watches what carries its own label, and the Leases of locks.
func CacheOptions() cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/managed-by": "lockstead"})}
	options := cache.Options{ByObject: map[client.Object]cache.ByObject{
		&coordinationv1.Lease{}: {Label: labels.SelectorFromSet(labels.Set{leaseformat.LabelLock: leaseformat.LabelLockValue})},
	}}
	for _, object := range children() {
		options.ByObject[object] = ours
	}
	return options
}

// ClientOptions let reads of children go to the API server: the cache does not have a foreign object of the same name, which has to be
// noticed.
func ClientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: children()}}
}

// children are the kinds that the operator makes.
func children() []client.Object {
	return []client.Object{
		&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Service{}, &appsv1.StatefulSet{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	}
}
