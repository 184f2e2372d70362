// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// The labels of children.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "lockstead.dev/redisinstance"
	managedBy      = "lockstead"
)

// The names of the children of a RedisInstance.
func childName(instance string) string       { return instance + "-redis" }
func configName(instance string) string      { return instance + "-redis-config" }
func aclSecretName(instance string) string   { return instance + "-redis-acl" }
func adminSecretName(instance string) string { return instance + "-redis-admin" }
func probeSecretName(instance string) string { return instance + "-redis-probe" }

func childLabels(instance string) map[string]string {
	return map[string]string{labelManagedBy: managedBy, labelName: "lockstead-redis", labelInstance: instance}
}

func selectorLabels(instance string) map[string]string {
	return map[string]string{labelName: "lockstead-redis", labelInstance: instance}
}

// serviceHost is the name of the Service in the cluster's DNS. Without the cluster's domain it works with any.
func serviceHost(instance *v1alpha1.RedisInstance) string {
	return childName(instance.Name) + "." + instance.Namespace + ".svc"
}

func controllerReference(instance *v1alpha1.RedisInstance) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("RedisInstance").
		WithName(instance.Name).WithUID(instance.UID).WithController(true).WithBlockOwnerDeletion(true)
}

// managedServer is the spec of a managed server with all defaults, also for one that was written without the block.
func managedServer(instance *v1alpha1.RedisInstance) v1alpha1.ManagedServer {
	var managed v1alpha1.ManagedServer
	if instance.Spec.Managed != nil {
		managed = *instance.Spec.Managed.DeepCopy()
	}
	managed.Engine = cmp.Or(managed.Engine, v1alpha1.EngineValkey)
	managed.Fsync = cmp.Or(managed.Fsync, v1alpha1.FsyncAlways)
	managed.NetworkPolicy = cmp.Or(managed.NetworkPolicy, v1alpha1.ChildManaged)
	managed.PodDisruptionBudget = cmp.Or(managed.PodDisruptionBudget, v1alpha1.ChildManaged)
	managed.SecurityProfile = cmp.Or(managed.SecurityProfile, v1alpha1.SecurityRestricted)
	if managed.Memory == nil {
		managed.Memory = new(resource.MustParse("256Mi"))
	}
	if managed.CPURequest == nil {
		managed.CPURequest = new(resource.MustParse("50m"))
	}
	if managed.Storage == nil {
		managed.Storage = &v1alpha1.Storage{}
	}
	if managed.Storage.Size == nil {
		managed.Storage.Size = new(resource.MustParse("1Gi"))
	}
	managed.Storage.WhenDeleted = cmp.Or(managed.Storage.WhenDeleted, v1alpha1.WhenDeletedRetain)
	if managed.TLS == nil {
		managed.TLS = &v1alpha1.ManagedTLS{Mode: v1alpha1.ManagedTLSDisabled}
	}
	if managed.Scheduling == nil {
		managed.Scheduling = &v1alpha1.Scheduling{}
	}
	if managed.PodMetadata == nil {
		managed.PodMetadata = &v1alpha1.PodMetadata{}
	}
	return managed
}

func desiredConfigMap(instance *v1alpha1.RedisInstance) *corev1ac.ConfigMapApplyConfiguration {
	return corev1ac.ConfigMap(configName(instance.Name), instance.Namespace).
		WithLabels(childLabels(instance.Name)).WithOwnerReferences(controllerReference(instance)).
		WithData(map[string]string{configFile: redisConf(managedServer(instance))})
}

// secretObject is a Secret that belongs to instance.
func secretObject(instance *v1alpha1.RedisInstance, name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: instance.Namespace, Name: name, Labels: childLabels(instance.Name),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(instance, v1alpha1.GroupVersion.WithKind("RedisInstance"))},
		},
		Type: corev1.SecretTypeOpaque,
		Data: data,
	}
}
