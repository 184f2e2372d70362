// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
)

// workers is how many LockNamespaces are brought up to date at a time. A slow server holds up its own LockNamespaces, one each.
const workers = 4

// deletions are when something becomes free.
var deletions = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// instanceChanges are the changes of a RedisInstance that mean something to its LockNamespaces. How many of them there are, and in which words and when
// a condition was told, changes with every one that is bound, and would have all others looked at again.
var instanceChanges = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.RedisInstance)
	after, alsoOK := e.ObjectNew.(*v1alpha1.RedisInstance)
	if !ok || !alsoOK || before.UID != after.UID || before.Generation != after.Generation || before.ResourceVersion == after.ResourceVersion {
		return true
	}
	return !equality.Semantic.DeepEqual(gist(before), gist(after))
}}

// gist is what a status says to programs.
func gist(instance *v1alpha1.RedisInstance) *v1alpha1.RedisInstanceStatus {
	status := instance.Status.DeepCopy()
	status.LockNamespaces = 0
	if status.RecordMemory != nil {
		status.RecordMemory.Granted = nil
	}
	for i := range status.Conditions {
		status.Conditions[i].Message, status.Conditions[i].LastTransitionTime = "", metav1.Time{}
	}
	return status
}

// Register adds the controller to a manager. What is made for LockNamespaces is watched without its content.
func (c *Controller) Register(mgr manager.Manager) error {
	err := builder.ControllerManagedBy(mgr).Named(Name).
		For(&v1alpha1.LockNamespace{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.Secret{}, builder.OnlyMetadata).
		Owns(&rbacv1.Role{}, builder.OnlyMetadata).
		Owns(&rbacv1.RoleBinding{}, builder.OnlyMetadata).
		Watches(&v1alpha1.RedisInstance{}, handler.EnqueueRequestsFromMapFunc(c.usersOf), builder.WithPredicates(instanceChanges)).
		Watches(&v1alpha1.LockNamespace{}, handler.EnqueueRequestsFromMapFunc(c.sharersOf)).
		Watches(&v1alpha1.LockNamespace{}, handler.EnqueueRequestsFromMapFunc(c.waitingFor), builder.WithPredicates(deletions)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(c.withinNamespace), builder.OnlyMetadata,
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.AsReconciler[*v1alpha1.LockNamespace](c.client, c))
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", Name, err)
	}
	return nil
}

// usersOf are the LockNamespaces that are bound to a RedisInstance or wait for one of its name, or for an owner that may be bound to it.
func (c *Controller) usersOf(ctx context.Context, instance client.Object) []reconcile.Request {
	return c.requests(ctx, func(lns *v1alpha1.LockNamespace) bool {
		t := chooseTarget(lns, nil, c.defaultInstance)
		return t.backend == v1alpha1.BackendRedis && (t.instance.Name == "" || t.instance == client.ObjectKeyFromObject(instance))
	})
}

// sharersOf are the LockNamespaces that share the locks of another, or ask for it.
func (c *Controller) sharersOf(ctx context.Context, owner client.Object) []reconcile.Request {
	return c.requests(ctx, func(lns *v1alpha1.LockNamespace) bool {
		return lns.Spec.ShareFrom != nil && ownerName(lns) == client.ObjectKeyFromObject(owner)
	})
}

// waitingFor are the LockNamespaces that may get what another had: its prefix, or its place on a RedisInstance.
func (c *Controller) waitingFor(ctx context.Context, object client.Object) []reconcile.Request {
	gone, ok := object.(*v1alpha1.LockNamespace)
	if !ok || gone.Status.Backend == v1alpha1.BackendLease {
		return nil
	}
	had := chooseTarget(gone, nil, c.defaultInstance).instance
	return c.requests(ctx, func(lns *v1alpha1.LockNamespace) bool {
		t := chooseTarget(lns, nil, c.defaultInstance)
		if t.backend != v1alpha1.BackendRedis {
			return false
		}
		return !t.recorded && (t.instance.Name == "" || t.instance == had) || redisinstance.HasPrefix(lns, redisinstance.PrefixOf(gone))
	})
}

// withinNamespace are the LockNamespaces of a namespace, whose labels decide which RedisInstances allow them.
func (c *Controller) withinNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	return c.requests(ctx, func(*v1alpha1.LockNamespace) bool { return true }, client.InNamespace(namespace.GetName()))
}

func (c *Controller) requests(ctx context.Context, matches func(*v1alpha1.LockNamespace) bool, options ...client.ListOption) []reconcile.Request {
	var list v1alpha1.LockNamespaceList
	if err := c.client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
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
