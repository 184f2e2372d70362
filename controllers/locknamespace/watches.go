// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// Register adds the controller to a manager. What is made for LockNamespaces is watched without its content.
func (c *Controller) Register(mgr manager.Manager) error {
	err := builder.ControllerManagedBy(mgr).Named(Name).
		For(&v1alpha1.LockNamespace{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.Secret{}, builder.OnlyMetadata).
		Owns(&rbacv1.Role{}, builder.OnlyMetadata).
		Owns(&rbacv1.RoleBinding{}, builder.OnlyMetadata).
		Watches(&v1alpha1.RedisInstance{}, handler.EnqueueRequestsFromMapFunc(c.usersOf)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(c.withinNamespace), builder.OnlyMetadata,
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Complete(reconcile.AsReconciler[*v1alpha1.LockNamespace](c.client, c))
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", Name, err)
	}
	return nil
}

// usersOf are the LockNamespaces that are bound to a RedisInstance or wait for one of its name.
func (c *Controller) usersOf(ctx context.Context, instance client.Object) []reconcile.Request {
	return c.requests(ctx, func(lns *v1alpha1.LockNamespace) bool {
		t := chooseTarget(lns, c.defaultInstance)
		return t.backend == v1alpha1.BackendRedis && t.instance == client.ObjectKeyFromObject(instance)
	})
}

// withinNamespace are the LockNamespaces of a namespace, whose labels decide which RedisInstances allow them.
func (c *Controller) withinNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	return c.requests(ctx, func(*v1alpha1.LockNamespace) bool { return true }, client.InNamespace(namespace.GetName()))
}

func (c *Controller) requests(ctx context.Context, matches func(*v1alpha1.LockNamespace) bool, options ...client.ListOption) []reconcile.Request {
	var list v1alpha1.LockNamespaceList
	if err := c.client.List(ctx, &list, options...); err != nil {
		return nil // From the cache; it fails only when the operator stops.
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if matches(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{
				Namespace: list.Items[i].Namespace, Name: list.Items[i].Name,
			}})
		}
	}
	return requests
}
