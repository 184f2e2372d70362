// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/json"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// annotationBoot of the pods has a digest of what they have to be restarted for when it changes.
const annotationBoot = "lockstead.dev/boot"

// redisUser is the user and group of the container: the one of the official images, so that these run without root too.
const redisUser = 999

// containerName is the only container of the pod.
const containerName = "redis"

// dataVolume is the volume that has the locks.
const dataVolume = "data"

// bootDigest changes when the pod has to be restarted: its configuration, or a user that it needs before the operator can program users.
func bootDigest(instance *v1alpha1.RedisInstance, systemHashes []string) string {
	sum := sha256.Sum256([]byte(redisConf(managedServer(instance)) + strings.Join(systemHashes, "\n")))
	return hex.EncodeToString(sum[:8])
}

// desiredStatefulSet is one pod with a volume of this size. The error is about a part of the spec that no schema describes.
func desiredStatefulSet(instance *v1alpha1.RedisInstance, bootDigest string, size resource.Quantity) (*appsv1ac.StatefulSetApplyConfiguration, error) {
	managed := managedServer(instance)
	pod, err := podSpec(instance.Name, managed)
	if err != nil {
		return nil, err
	}
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, managed.PodMetadata.Labels)
	maps.Copy(labels, childLabels(instance.Name))
	maps.Copy(annotations, managed.PodMetadata.Annotations)
	annotations[annotationBoot] = bootDigest
	claim := corev1ac.PersistentVolumeClaimSpec().WithAccessModes(corev1.ReadWriteOnce).WithResources(
		corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: size}))
	if class := managed.Storage.StorageClassName; class != nil {
		claim = claim.WithStorageClassName(*class)
	}
	template := corev1ac.PersistentVolumeClaim(dataVolume, "").WithLabels(selectorLabels(instance.Name)).WithSpec(claim)
	template.Namespace, template.APIVersion, template.Kind = nil, nil, nil // None of which the API server returns.
	return appsv1ac.StatefulSet(childName(instance.Name), instance.Namespace).
		WithLabels(childLabels(instance.Name)).WithOwnerReferences(controllerReference(instance)).
		WithSpec(appsv1ac.StatefulSetSpec().
			// Ordered, a rolling update would wait for a pod that cannot start, and a corrected image would never reach it.
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithReplicas(1).WithServiceName(childName(instance.Name)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels(instance.Name))).
			WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
				WithWhenDeleted(whenDeleted[managed.Storage.WhenDeleted]).
				WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithAnnotations(annotations).WithSpec(pod)).
			WithVolumeClaimTemplates(template)), nil
}

var whenDeleted = map[v1alpha1.WhenDeleted]appsv1.PersistentVolumeClaimRetentionPolicyType{
	v1alpha1.WhenDeletedRetain: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
	v1alpha1.WhenDeletedDelete: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
}

func podSpec(instance string, managed v1alpha1.ManagedServer) (*corev1ac.PodSpecApplyConfiguration, error) {
	pod := corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).WithEnableServiceLinks(false).WithTerminationGracePeriodSeconds(30).
		WithSecurityContext(podSecurity(managed.SecurityProfile)).
		WithContainers(redisContainer(instance, managed)).
		WithVolumes(
			corev1ac.Volume().WithName("config").WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(configName(instance)).WithDefaultMode(0o444)),
			corev1ac.Volume().WithName("acl").WithSecret(corev1ac.SecretVolumeSource().WithSecretName(aclSecretName(instance)).WithDefaultMode(0o440)),
		)
	if managed.TLS.Mode == v1alpha1.ManagedTLSSecret {
		source := corev1ac.SecretVolumeSource().WithSecretName(managed.TLS.SecretName).WithDefaultMode(0o440)
		for _, entry := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, entryCA} {
			source = source.WithItems(corev1ac.KeyToPath().WithKey(entry).WithPath(entry))
		}
		pod = pod.WithVolumes(corev1ac.Volume().WithName("tls").WithSecret(source))
	}
	for _, secret := range managed.ImagePullSecrets {
		pod = pod.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(secret.Name))
	}
	return schedule(pod, managed.Scheduling)
}

func podSecurity(profile v1alpha1.SecurityProfile) *corev1ac.PodSecurityContextApplyConfiguration {
	security := corev1ac.PodSecurityContext().WithRunAsNonRoot(true).WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	if profile == v1alpha1.SecurityPlatformManaged {
		return security
	}
	return security.WithRunAsUser(redisUser).WithRunAsGroup(redisUser).WithFSGroup(redisUser)
}

// schedule says where the pod may run.
func schedule(pod *corev1ac.PodSpecApplyConfiguration, where *v1alpha1.Scheduling) (*corev1ac.PodSpecApplyConfiguration, error) {
	if len(where.NodeSelector) > 0 {
		pod = pod.WithNodeSelector(where.NodeSelector)
	}
	if where.PriorityClassName != "" {
		pod = pod.WithPriorityClassName(where.PriorityClassName)
	}
	for _, t := range where.Tolerations {
		toleration := &corev1ac.TolerationApplyConfiguration{TolerationSeconds: t.TolerationSeconds}
		if t.Key != "" {
			toleration = toleration.WithKey(t.Key)
		}
		if t.Operator != "" {
			toleration = toleration.WithOperator(t.Operator)
		}
		if t.Value != "" {
			toleration = toleration.WithValue(t.Value)
		}
		if t.Effect != "" {
			toleration = toleration.WithEffect(t.Effect)
		}
		pod = pod.WithTolerations(toleration)
	}
	if where.Affinity != nil {
		// Read strictly: the API server would drop a field that it does not know, and the pod would run where nobody wanted it.
		affinity := corev1ac.Affinity()
		strict, err := json.UnmarshalStrict(where.Affinity.Raw, affinity)
		if err == nil && len(strict) > 0 {
			err = strict[0]
		}
		if err != nil {
			return nil, &unavailableError{v1alpha1.ReasonInvalidSpec, fmt.Sprintf(
				"spec.managed.scheduling.affinity is not one of a pod: %v. See kubectl explain pod.spec.affinity.", err)}
		}
		pod = pod.WithAffinity(affinity)
	}
	return pod, nil
}

func redisContainer(instance string, managed v1alpha1.ManagedServer) *corev1ac.ContainerApplyConfiguration {
	engine := engines[managed.Engine]
	secured := managed.TLS.Mode == v1alpha1.ManagedTLSSecret
	ping := func(flags ...string) *corev1ac.ProbeApplyConfiguration {
		if secured {
			// Not verified: the probe stays in the pod, and must not fail while the files of the certificate are newer than what the server shows.
			flags = append(flags, "--tls", "--insecure")
		}
		command := append(append([]string{engine.client}, flags...), "--user", probeUser, "ping")
		return corev1ac.Probe().WithExec(corev1ac.ExecAction().WithCommand(command...)).WithTimeoutSeconds(5)
	}
	container := corev1ac.Container().WithName(containerName).WithImage(image(managed)).WithImagePullPolicy(corev1.PullIfNotPresent).
		WithCommand(engine.server, configFolder+"/"+configFile).
		WithPorts(corev1ac.ContainerPort().WithName("redis").WithContainerPort(redisPort).WithProtocol(corev1.ProtocolTCP)).
		WithEnv(corev1ac.EnvVar().WithName("REDISCLI_AUTH").WithValueFrom(corev1ac.EnvVarSource().WithSecretKeyRef(
			corev1ac.SecretKeySelector().WithName(probeSecretName(instance)).WithKey(entryPassword)))).
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceCPU: *managed.CPURequest, corev1.ResourceMemory: *managed.Memory}).
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
			corev1ac.VolumeMount().WithName(dataVolume).WithMountPath(dataFolder),
		)
	if secured {
		container = container.WithVolumeMounts(corev1ac.VolumeMount().WithName("tls").WithMountPath(tlsFolder).WithReadOnly(true))
	}
	return container
}
