// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

func TestThePodFollowsTheSpec(t *testing.T) {
	t.Parallel()
	set := desired(t, &v1alpha1.ManagedServer{
		CPURequest:       new(resource.MustParse("2")),
		ImagePullSecrets: []v1alpha1.PullSecret{{Name: "a"}, {Name: "b"}},
		SecurityProfile:  v1alpha1.SecurityPlatformManaged,
		Storage:          &v1alpha1.Storage{WhenDeleted: v1alpha1.WhenDeletedDelete},
		Scheduling: &v1alpha1.Scheduling{
			NodeSelector: map[string]string{"disk": "fast"}, PriorityClassName: "high",
			Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpEqual, Value: "v", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(7))}},
			Affinity:    &runtime.RawExtension{Raw: []byte(`{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{}}]}}`)},
		},
		PodMetadata: &v1alpha1.PodMetadata{
			Labels: map[string]string{"team": "x", labelName: "mine"}, Annotations: map[string]string{"note": "y", annotationBoot: "mine"},
		},
	}).Spec
	pod := set.Template.Spec
	cpu := (*pod.Containers[0].Resources.Requests)[corev1.ResourceCPU]
	if cpu.String() != "2" || len(pod.ImagePullSecrets) != 2 || *pod.ImagePullSecrets[1].Name != "b" {
		t.Errorf("CPU %s, pull secrets %v", cpu.String(), pod.ImagePullSecrets)
	}
	if s := pod.SecurityContext; s.RunAsUser != nil || s.RunAsGroup != nil || s.FSGroup != nil || !*s.RunAsNonRoot {
		t.Errorf("the platform cannot choose the user: %+v", s)
	}
	if *set.PersistentVolumeClaimRetentionPolicy.WhenDeleted != appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		t.Error("the volume is not deleted with the RedisInstance")
	}
	toleration := pod.Tolerations[0]
	if pod.NodeSelector["disk"] != "fast" || *pod.PriorityClassName != "high" || *toleration.Key != "k" || *toleration.TolerationSeconds != 7 ||
		*toleration.Effect != corev1.TaintEffectNoExecute || *pod.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight != 1 {
		t.Errorf("the pod is scheduled by %+v", pod)
	}
	labels, annotations := set.Template.Labels, set.Template.Annotations
	if labels["team"] != "x" || labels[labelName] != "lockstead-redis" || annotations["note"] != "y" || annotations[annotationBoot] != "digest" {
		t.Errorf("labels %v, annotations %v", labels, annotations)
	}
}

func TestFsyncOfTheSpec(t *testing.T) {
	t.Parallel()
	for fsync, want := range map[v1alpha1.Fsync]string{"": "always", v1alpha1.FsyncAlways: "always", v1alpha1.FsyncEverySecond: "everysec"} {
		conf := redisConf(managedServer(instanceWith(&v1alpha1.ManagedServer{Fsync: fsync})))
		if !strings.Contains(conf, "\nappendfsync "+want+"\n") {
			t.Errorf("fsync %q gives\n%s", fsync, conf)
		}
	}
}

func TestNamespacesThatAreAdmitted(t *testing.T) {
	t.Parallel()
	namespace := func(name string, accepted metav1.ConditionStatus, reason string) v1alpha1.LockNamespace {
		return v1alpha1.LockNamespace{
			ObjectMeta: metav1.ObjectMeta{Namespace: name},
			Status:     v1alpha1.LockNamespaceStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Status: accepted, Reason: reason}}},
		}
	}
	got := admitted([]v1alpha1.LockNamespace{
		namespace("b", metav1.ConditionTrue, v1alpha1.ReasonAccepted), namespace("a", metav1.ConditionTrue, v1alpha1.ReasonAccepted),
		namespace("c", metav1.ConditionFalse, v1alpha1.ReasonNotAllowedByInstance), namespace("b", metav1.ConditionTrue, v1alpha1.ReasonAccepted),
		// What is bound and asks for too much keeps its access.
		namespace("d", metav1.ConditionFalse, v1alpha1.ReasonTTLAboveInstanceMaximum), namespace("e", metav1.ConditionFalse, v1alpha1.ReasonTTLAboveOwnerMaximum),
		namespace("f", metav1.ConditionFalse, v1alpha1.ReasonPrefixTaken), namespace("g", metav1.ConditionFalse, v1alpha1.ReasonShareNotGranted),
	})
	if !slices.Equal(got, []string{"a", "b", "d", "e"}) {
		t.Errorf("admitted are %v", got)
	}
	// An operator of unknown place and no LockNamespaces: no rule at all, since one without peers admits everybody.
	if policy := desiredNetworkPolicy(instanceWith(nil), Pods{}, nil); len(policy.Spec.Ingress) != 0 {
		t.Errorf("the policy admits %+v", policy.Spec.Ingress)
	}
}

func TestThePodOfAServerWithTLS(t *testing.T) {
	t.Parallel()
	managed := &v1alpha1.ManagedServer{TLS: &v1alpha1.ManagedTLS{Mode: v1alpha1.ManagedTLSSecret, SecretName: "cert"}}
	pod := desired(t, managed).Spec.Template.Spec
	container, volume := pod.Containers[0], pod.Volumes[len(pod.Volumes)-1]
	if *volume.Secret.SecretName != "cert" || len(volume.Secret.Items) != 3 || *container.VolumeMounts[len(container.VolumeMounts)-1].MountPath != tlsFolder {
		t.Errorf("volume %+v, mounts %+v", volume, container.VolumeMounts)
	}
	for _, probe := range [][]string{container.ReadinessProbe.Exec.Command, container.LivenessProbe.Exec.Command} {
		if !slices.Contains(probe, "--tls") {
			t.Errorf("the probe %v is in the clear", probe)
		}
	}
	conf := redisConf(managedServer(instanceWith(managed)))
	for _, want := range []string{"port 0", "tls-port 6379", "tls-cert-file /etc/lockstead/tls/tls.crt"} {
		if !strings.Contains(conf, "\n"+want+"\n") {
			t.Errorf("the configuration has no line %q", want)
		}
	}
	if bootDigest(instanceWith(managed), nil) == bootDigest(instanceWith(nil), nil) {
		t.Error("the pod is not restarted for TLS")
	}
}
