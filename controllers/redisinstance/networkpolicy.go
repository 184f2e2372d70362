// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// Pods are some pods of one namespace. The zero value is none.
type Pods struct {
	Namespace string
	Labels    map[string]string
}

// desiredNetworkPolicy admits the operator and the namespaces of LockNamespaces that have access, and nobody else. The kubelet's probes run in the
// pod and need no rule.
func desiredNetworkPolicy(instance *v1alpha1.RedisInstance, operator Pods, namespaces []string) *networkingv1ac.NetworkPolicyApplyConfiguration {
	var peers []*networkingv1ac.NetworkPolicyPeerApplyConfiguration
	if operator.Namespace != "" {
		peers = append(peers, networkingv1ac.NetworkPolicyPeer().
			WithNamespaceSelector(namespacesNamed(operator.Namespace)).
			WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(operator.Labels)))
	}
	if len(namespaces) > 0 {
		peers = append(peers, networkingv1ac.NetworkPolicyPeer().WithNamespaceSelector(namespacesNamed(namespaces...)))
	}
	spec := networkingv1ac.NetworkPolicySpec().
		WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels(instance.Name))).
		WithPolicyTypes(networkingv1.PolicyTypeIngress)
	// A rule without peers would admit everybody.
	if len(peers) > 0 {
		spec = spec.WithIngress(networkingv1ac.NetworkPolicyIngressRule().WithFrom(peers...).WithPorts(
			networkingv1ac.NetworkPolicyPort().WithProtocol(corev1.ProtocolTCP).WithPort(intstr.FromInt32(redisPort))))
	}
	return networkingv1ac.NetworkPolicy(childName(instance.Name), instance.Namespace).
		WithLabels(childLabels(instance.Name)).WithOwnerReferences(controllerReference(instance)).WithSpec(spec)
}

func namespacesNamed(names ...string) *metav1ac.LabelSelectorApplyConfiguration {
	return metav1ac.LabelSelector().WithMatchExpressions(metav1ac.LabelSelectorRequirement().
		WithKey(corev1.LabelMetadataName).WithOperator(metav1.LabelSelectorOpIn).WithValues(names...))
}

// admitted are the namespaces of the LockNamespaces that have access, sorted.
func admitted(bound []v1alpha1.LockNamespace) []string {
	var names []string
	for i := range bound {
		if !bound[i].AccessRevoked() {
			names = append(names, bound[i].Namespace)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
