// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;patch

// claimName is the name of the volume claim that the StatefulSet makes.
func claimName(instance string) string { return dataVolume + "-" + childName(instance) + "-0" }

// templateSize is the size in the template for new claims. It cannot be changed, so the one that a StatefulSet was made with stays, and claims grow
// by themselves: a claim that is made anew begins small and is grown again.
func (c *Controller) templateSize(ctx context.Context, instance *v1alpha1.RedisInstance) (resource.Quantity, error) {
	wanted := *managedServer(instance).Storage.Size
	statefulSet := &appsv1.StatefulSet{}
	err := c.reader.Get(ctx, types.NamespacedName{Namespace: instance.Namespace, Name: childName(instance.Name)}, statefulSet)
	if apierrors.IsNotFound(err) {
		return wanted, nil
	}
	if err != nil {
		return wanted, fmt.Errorf("get StatefulSet %s: %w", childName(instance.Name), err)
	}
	for _, template := range statefulSet.Spec.VolumeClaimTemplates {
		if size, ok := template.Spec.Resources.Requests[corev1.ResourceStorage]; ok && template.Name == dataVolume {
			return size, nil
		}
	}
	return wanted, nil
}

// growVolume lets the volume of a managed server grow to the size of the spec. One that is larger stays as it is.
func (c *Controller) growVolume(ctx context.Context, instance *v1alpha1.RedisInstance) (growth, error) {
	wanted := *managedServer(instance).Storage.Size
	claim := &corev1.PersistentVolumeClaim{}
	err := c.reader.Get(ctx, types.NamespacedName{Namespace: instance.Namespace, Name: claimName(instance.Name)}, claim)
	if apierrors.IsNotFound(err) {
		return growth{}, nil // The StatefulSet makes it.
	}
	if err != nil {
		return growth{}, fmt.Errorf("get PersistentVolumeClaim %s: %w", claimName(instance.Name), err)
	}
	g := planGrowth(instance.Name, claim, wanted)
	if !g.patch {
		return g, nil
	}
	before := claim.DeepCopy()
	if claim.Spec.Resources.Requests == nil {
		claim.Spec.Resources.Requests = corev1.ResourceList{}
	}
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = wanted
	err = c.client.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return growth{refused: fmt.Sprintf("The volume cannot grow to %s: %s.", wanted.String(), err)}, nil
	}
	if err != nil {
		return growth{}, fmt.Errorf("patch PersistentVolumeClaim %s: %w", claim.Name, err)
	}
	return g, nil
}

// growth is what is to be done about the size of a volume, and what is told of it.
type growth struct {
	// patch: the claim asks for less than is wanted.
	patch bool
	// growing says how far it is; empty is not at all.
	growing string
	// refused says why it cannot grow.
	refused string
}

// planGrowth compares a claim with the size that is wanted.
func planGrowth(instance string, claim *corev1.PersistentVolumeClaim, wanted resource.Quantity) growth {
	asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	for key, value := range selectorLabels(instance) {
		if claim.Labels[key] != value && asked.Cmp(wanted) < 0 {
			return growth{refused: fmt.Sprintf("PersistentVolumeClaim %s was not made for this RedisInstance, and asks for %s. Let it ask for %s.", claim.Name, asked.String(), wanted.String())}
		}
	}
	g := growth{patch: asked.Cmp(wanted) < 0}
	if claim.Status.Phase == corev1.ClaimBound && (g.patch || has.Cmp(wanted) < 0) {
		g.growing = fmt.Sprintf("The volume grows from %s to %s.", has.String(), wanted.String())
	}
	// A claim that has no volume yet may not be changed; it is when it has one.
	g.patch = g.patch && claim.Status.Phase == corev1.ClaimBound
	return g
}
