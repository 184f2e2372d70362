// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

func desiredService(instance *v1alpha1.RedisInstance) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(childName(instance.Name), instance.Namespace).
		WithLabels(childLabels(instance.Name)).WithOwnerReferences(controllerReference(instance)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).WithIPFamilyPolicy(corev1.IPFamilyPolicyPreferDualStack).
			WithSelector(selectorLabels(instance.Name)).
			WithPorts(corev1ac.ServicePort().WithName("redis").WithAppProtocol("redis").WithProtocol(corev1.ProtocolTCP).
				WithPort(redisPort).WithTargetPort(intstr.FromString("redis"))))
}
