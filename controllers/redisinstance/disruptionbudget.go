// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// desiredDisruptionBudget keeps a drain from ending a server that works. It does not protect one that does not.
func desiredDisruptionBudget(instance *v1alpha1.RedisInstance) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(childName(instance.Name), instance.Namespace).
		WithLabels(childLabels(instance.Name)).WithOwnerReferences(controllerReference(instance)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			// Not maxUnavailable, for which the StatefulSet has to exist: it is made anew when the volume grows.
			WithMinAvailable(intstr.FromInt32(1)).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels(instance.Name))))
}
