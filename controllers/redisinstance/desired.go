// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
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

// annotationBoot of the pods has a digest of what they have to be restarted for when it changes.
const annotationBoot = "lockstead.dev/boot"

// redisUser is the user and group of the container: the one of the official images, so that these run without root too.
const redisUser = 999

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
	if managed.Engine == "" {
		managed.Engine = v1alpha1.EngineValkey
	}
	if managed.Memory == nil {
		managed.Memory = new(resource.MustParse("256Mi"))
	}
	if managed.Storage == nil {
		managed.Storage = &v1alpha1.Storage{}
	}
	if managed.Storage.Size == nil {
		managed.Storage.Size = new(resource.MustParse("1Gi"))
	}
	return managed
}

func desiredConfigMap(instance *v1alpha1.RedisInstance) *corev1ac.ConfigMapApplyConfiguration {
	memory := managedServer(instance).Memory
	return corev1ac.ConfigMap(configName(instance.Name), instance.Namespace).
		WithLabels(childLabels(instance.Name)).WithOwnerReferences(controllerReference(instance)).
		WithData(map[string]string{configFile: redisConf(memory.Value())})
}

func desiredService(instance *v1alpha1.RedisInstance) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(childName(instance.Name), instance.Namespace).
		WithLabels(childLabels(instance.Name)).WithOwnerReferences(controllerReference(instance)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).WithIPFamilyPolicy(corev1.IPFamilyPolicyPreferDualStack).
			WithSelector(selectorLabels(instance.Name)).
			WithPorts(corev1ac.ServicePort().WithName("redis").WithAppProtocol("redis").WithProtocol(corev1.ProtocolTCP).
				WithPort(redisPort).WithTargetPort(intstr.FromString("redis"))))
}

// bootDigest changes when the pod has to be restarted: its configuration, or a user that it needs before the operator can program users.
func bootDigest(instance *v1alpha1.RedisInstance, systemHashes []string) string {
	sum := sha256.Sum256([]byte(redisConf(managedServer(instance).Memory.Value()) + strings.Join(systemHashes, "\n")))
	return hex.EncodeToString(sum[:8])
}

// desiredStatefulSet is one pod with a volume that outlives the RedisInstance.
func desiredStatefulSet(instance *v1alpha1.RedisInstance, bootDigest string) *appsv1ac.StatefulSetApplyConfiguration {
	managed := managedServer(instance)
	claim := corev1ac.PersistentVolumeClaimSpec().WithAccessModes(corev1.ReadWriteOnce).WithResources(
		corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: *managed.Storage.Size}))
	if class := managed.Storage.StorageClassName; class != nil {
		claim = claim.WithStorageClassName(*class)
	}
	template := corev1ac.PersistentVolumeClaim("data", "").WithLabels(selectorLabels(instance.Name)).WithSpec(claim)
	template.Namespace, template.APIVersion, template.Kind = nil, nil, nil // None of which the API server returns.
	return appsv1ac.StatefulSet(childName(instance.Name), instance.Namespace).
		WithLabels(childLabels(instance.Name)).WithOwnerReferences(controllerReference(instance)).
		WithSpec(appsv1ac.StatefulSetSpec().
			// Ordered, a rolling update would wait for a pod that cannot start, and a corrected image would never reach it.
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithReplicas(1).WithServiceName(childName(instance.Name)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels(instance.Name))).
			WithTemplate(corev1ac.PodTemplateSpec().
				WithLabels(childLabels(instance.Name)).WithAnnotations(map[string]string{annotationBoot: bootDigest}).
				WithSpec(podSpec(instance.Name, managed))).
			WithVolumeClaimTemplates(template))
}

func podSpec(instance string, managed v1alpha1.ManagedServer) *corev1ac.PodSpecApplyConfiguration {
	return corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).WithEnableServiceLinks(false).WithTerminationGracePeriodSeconds(30).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).WithRunAsUser(redisUser).WithRunAsGroup(redisUser).
			WithFSGroup(redisUser).WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(redisContainer(instance, managed)).
		WithVolumes(
			corev1ac.Volume().WithName("config").WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(configName(instance)).WithDefaultMode(0o444)),
			corev1ac.Volume().WithName("acl").WithSecret(corev1ac.SecretVolumeSource().WithSecretName(aclSecretName(instance)).WithDefaultMode(0o440)),
		)
}

func redisContainer(instance string, managed v1alpha1.ManagedServer) *corev1ac.ContainerApplyConfiguration {
	engine := engines[managed.Engine]
	ping := func(flags ...string) *corev1ac.ProbeApplyConfiguration {
		command := append(append([]string{engine.client}, flags...), "--user", probeUser, "ping")
		return corev1ac.Probe().WithExec(corev1ac.ExecAction().WithCommand(command...)).WithTimeoutSeconds(5)
	}
	return corev1ac.Container().WithName("redis").WithImage(image(managed)).WithImagePullPolicy(corev1.PullIfNotPresent).
		WithCommand(engine.server, configFolder+"/"+configFile).
		WithPorts(corev1ac.ContainerPort().WithName("redis").WithContainerPort(redisPort).WithProtocol(corev1.ProtocolTCP)).
		WithEnv(corev1ac.EnvVar().WithName("REDISCLI_AUTH").WithValueFrom(corev1ac.EnvVarSource().WithSecretKeyRef(
			corev1ac.SecretKeySelector().WithName(probeSecretName(instance)).WithKey(entryPassword)))).
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: *managed.Memory}).
			WithLimits(corev1.ResourceList{corev1.ResourceMemory: *managed.Memory})).
		// With -e an error such as LOADING fails the command. Only readiness may depend on it: a server that reads a long file is not dead.
		WithReadinessProbe(ping("-e").WithPeriodSeconds(5).WithFailureThreshold(2)).
		WithLivenessProbe(ping().WithPeriodSeconds(10).WithFailureThreshold(6).WithInitialDelaySeconds(10)).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName("config").WithMountPath(configFolder).WithReadOnly(true),
			corev1ac.VolumeMount().WithName("acl").WithMountPath(aclFolder).WithReadOnly(true),
			corev1ac.VolumeMount().WithName("data").WithMountPath(dataFolder),
		)
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
