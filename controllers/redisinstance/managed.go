// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/apply"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// runServer brings the children of a managed RedisInstance to their desired state. The error is an unavailableError while the pod is not ready.
func (c *Controller) runServer(ctx context.Context, instance *v1alpha1.RedisInstance, in login, tenants tenants, observed *observation) error {
	var listErr error
	err := c.editBootFile(ctx, instance, in.system, func(users []redisproto.User) []redisproto.User {
		tenants, err := c.listTenants(ctx, instance)
		if err != nil {
			listErr = err
			return users
		}
		return slices.DeleteFunc(users, func(user redisproto.User) bool { return !tenants.users.Has(user.Name) })
	})
	if err := errors.Join(listErr, err); err != nil {
		return err
	}
	var hashes []string
	for _, user := range in.system {
		hashes = append(hashes, user.PasswordHashes...)
	}
	settled := true
	for _, child := range c.children(instance, tenants) {
		changed, err := c.bring(ctx, instance, child)
		if err != nil {
			return err
		}
		settled = settled && !changed
	}
	statefulSet := &appsv1.StatefulSet{}
	size, err := c.templateSize(ctx, instance)
	if err != nil {
		return err
	}
	desired, err := desiredStatefulSet(instance, bootDigest(instance, hashes), size)
	if err != nil {
		return err
	}
	changed, err := c.bring(ctx, instance, child{live: statefulSet, desired: desired})
	if err != nil {
		return err
	}
	observed.progress.rolling = rollout(childName(instance.Name)+"-0", statefulSet, changed)
	if observed.progress.growth, err = c.growVolume(ctx, instance); err != nil {
		return err
	}
	if statefulSet.Status.ReadyReplicas == 0 {
		return &unavailableError{v1alpha1.ReasonPodNotReady, fmt.Sprintf(
			"Pod %s-0 is not ready. See kubectl -n %s describe pod %[1]s-0, and its volume claim data-%[1]s-0.", childName(instance.Name), instance.Namespace)}
	}
	status := statefulSet.Status
	observed.settled = settled && !changed && status.ObservedGeneration == statefulSet.Generation && status.UpdatedReplicas == status.Replicas
	return nil
}

// child is an object that the operator makes for a managed server. With no desired state it must not exist.
type child struct {
	live    client.Object
	desired any
}

// children are all but the Secrets and the StatefulSet, in the order in which they are made.
func (c *Controller) children(instance *v1alpha1.RedisInstance, tenants tenants) []child {
	all := []child{
		{&corev1.ConfigMap{}, desiredConfigMap(instance)},
		{&corev1.Service{}, desiredService(instance)},
	}
	managed, meta := managedServer(instance), metav1.ObjectMeta{Namespace: instance.Namespace, Name: childName(instance.Name)}
	policy, budget := child{live: &networkingv1.NetworkPolicy{ObjectMeta: meta}}, child{live: &policyv1.PodDisruptionBudget{ObjectMeta: meta}}
	if managed.NetworkPolicy == v1alpha1.ChildManaged {
		policy.desired = desiredNetworkPolicy(instance, c.operator, admitted(tenants.bound))
	}
	if managed.PodDisruptionBudget == v1alpha1.ChildManaged {
		budget.desired = desiredDisruptionBudget(instance)
	}
	return append(all, policy, budget)
}

// bring makes, changes or deletes a child, and reports whether it had to. What the API server refuses because of the spec ends up in a condition.
func (c *Controller) bring(ctx context.Context, instance *v1alpha1.RedisInstance, child child) (changed bool, err error) {
	if child.desired == nil {
		changed, err = apply.Absent(ctx, c.reader, c.client, instance.UID, child.live)
	} else {
		changed, err = apply.Object(ctx, c.reader, c.client, instance.UID, child.live, child.desired)
	}
	switch {
	case errors.Is(err, apply.ErrForeign):
		return false, &unavailableError{v1alpha1.ReasonObjectConflict, "It is left alone, and no server is run: " + err.Error() + "."}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return false, &unavailableError{v1alpha1.ReasonInvalidSpec, "The API server refuses what follows from spec.managed. Correct it: " + err.Error()}
	case apierrors.IsForbidden(err):
		return false, &unavailableError{v1alpha1.ReasonProgramFailed, "The API server forbids it, by a quota or an admission policy of the namespace, or because the operator lacks a right: " + err.Error()}
	}
	return changed, err //nolint:wrapcheck // apply names the object.
}
