// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// specFields are the fields of the spec in the generated schema, down to those that have no fields of their own. The parts of types of Kubernetes
// itself are one field.
func specFields(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../config/crd/bases/lockstead.dev_redisinstances.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	whole := []string{"allowedNamespaces.selector", "managed.scheduling.tolerations"}
	var fields []string
	var collect func(path string, schema apiextensionsv1.JSONSchemaProps)
	collect = func(path string, schema apiextensionsv1.JSONSchemaProps) {
		if schema.Items != nil && schema.Items.Schema != nil && !slices.Contains(whole, path) {
			schema = *schema.Items.Schema
		}
		if len(schema.Properties) == 0 || slices.Contains(whole, path) {
			fields = append(fields, path)
			return
		}
		for name, property := range schema.Properties {
			collect(strings.TrimPrefix(path+"."+name, "."), property)
		}
	}
	collect("", crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	slices.Sort(fields)
	return fields
}

// children are the specs of everything that was made, without what follows from passwords.
func (b *bench) children() map[string]string {
	b.t.Helper()
	set, service, config := &appsv1.StatefulSet{}, &corev1.Service{}, &corev1.ConfigMap{}
	policy, budget := &networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{}
	state := map[string]string{}
	note := func(name string, part any) {
		text, err := json.Marshal(part)
		if err != nil {
			b.t.Fatal(err)
		}
		state[name] = string(text)
	}
	if b.exists(set, "locks-redis") {
		note("StatefulSet", set.Spec)
	}
	if b.exists(service, "locks-redis") {
		note("Service", service.Spec)
	}
	if b.exists(config, "locks-redis-config") {
		note("ConfigMap", config.Data)
	}
	if b.exists(policy, "locks-redis") {
		note("NetworkPolicy", policy.Spec)
	}
	if b.exists(budget, "locks-redis") {
		note("PodDisruptionBudget", budget.Spec)
	}
	note("Endpoint", b.instance.Status.Endpoint)
	return state
}

// settle reconciles until a change is through, which the second look tells, and wants nothing to be left to do.
func (b *bench) settle() {
	b.t.Helper()
	b.reconcile()
	b.reconcile()
	b.wantNoWrites()
}

// pod is the template of the managed server's pod.
func (b *bench) pod() corev1.PodTemplateSpec {
	b.t.Helper()
	return b.get(&appsv1.StatefulSet{}, "locks-redis").(*appsv1.StatefulSet).Spec.Template
}

func quantity(text string) *resource.Quantity { return new(resource.MustParse(text)) }

// Every field of the spec, changed and changed back, converges, or is refused with a message. A new field fails this test until it has a case.
func TestEveryFieldConvergesOrIsRefused(t *testing.T) {
	type spec = v1alpha1.RedisInstanceSpec
	const (
		inTheClear = iota
		secured
		elsewhere
		shared
	)
	covered := map[string]bool{}
	// A nil effect is for what another test shows, and what changes no child.
	container := func(b *bench) corev1.Container { return b.pod().Spec.Containers[0] }
	schedule := func(change func(*v1alpha1.Scheduling)) func(*spec) {
		return func(s *spec) { s.Managed.Scheduling = &v1alpha1.Scheduling{}; change(s.Managed.Scheduling) }
	}
	for _, tc := range []struct {
		field string
		of    int
		// change is refused with a message, or takes effect.
		change  func(*spec)
		refused string
		effect  func(*bench) bool
	}{
		{field: "mode", change: func(s *spec) { *s = external() }, refused: "mode is immutable: create another RedisInstance"},
		{field: "mode", of: elsewhere, change: func(s *spec) { *s = managed() }, refused: "mode is immutable: create another RedisInstance"},
		{field: "allowedNamespaces.from", change: func(s *spec) { s.AllowedNamespaces.From = v1alpha1.NamespacesAll }},
		{field: "allowedNamespaces.selector", change: func(s *spec) { s.AllowedNamespaces.Selector = &metav1.LabelSelector{} }, refused: "selector belongs to from: Selector"},
		{field: "allowedNamespaces.selector", change: func(s *spec) {
			s.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesSelector, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		}},
		{field: "limits.maxTTL", change: func(s *spec) { s.Limits.MaxTTL.Duration = 2 * time.Hour }, effect: func(b *bench) bool {
			return b.instance.Status.LongestTTL.Duration == 2*time.Hour
		}},
		{field: "limits.maxLockNamespaces", change: func(s *spec) { s.Limits.MaxLockNamespaces = 7 }},
		{field: "limits.recordMemoryPercent", change: func(s *spec) { s.Limits.RecordMemoryPercent = new(int32(7)) }},
		{field: "limits.customPrefixes", change: func(s *spec) { s.Limits.CustomPrefixes = v1alpha1.CustomPrefixesAllowed }},
		{field: "deletionProtection", change: func(s *spec) { s.DeletionProtection = v1alpha1.DeletionDisabled }},

		{field: "managed.engine", change: func(s *spec) { s.Managed.Engine = v1alpha1.EngineValkey }, refused: "engine is immutable: create another RedisInstance"},
		{field: "managed.version", change: func(s *spec) { s.Managed.Version = "7.2" }, effect: func(b *bench) bool { return strings.HasSuffix(container(b).Image, ":7.2") }},
		{field: "managed.image", change: func(s *spec) { s.Managed.Image = "example.com/redis:1" }, refused: "set version, or image, not both"},
		{field: "managed.image", change: func(s *spec) { s.Managed.Image, s.Managed.Version = "example.com/redis:1", "" }, effect: func(b *bench) bool {
			return container(b).Image == "example.com/redis:1"
		}},
		{field: "managed.imagePullSecrets.name", change: func(s *spec) { s.Managed.ImagePullSecrets = []v1alpha1.PullSecret{{Name: "a"}, {Name: "b"}} }, effect: func(b *bench) bool {
			return len(b.pod().Spec.ImagePullSecrets) == 2
		}},
		{field: "managed.storage.size", change: func(s *spec) { s.Managed.Storage = &v1alpha1.Storage{Size: quantity("512Mi")} }, refused: "managed.storage.size (1Gi unless set) can only grow"},
		{field: "managed.storage.storageClassName", change: func(s *spec) { s.Managed.Storage = &v1alpha1.Storage{StorageClassName: new("fast")} }, refused: "managed.storage.storageClassName is immutable"},
		{field: "managed.storage.whenDeleted", change: func(s *spec) { s.Managed.Storage = &v1alpha1.Storage{WhenDeleted: v1alpha1.WhenDeletedDelete} }, effect: func(b *bench) bool {
			set := b.get(&appsv1.StatefulSet{}, "locks-redis").(*appsv1.StatefulSet)
			return set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		}},
		{field: "managed.fsync", change: func(s *spec) { s.Managed.Fsync = v1alpha1.FsyncEverySecond }, effect: func(b *bench) bool {
			return strings.Contains(b.children()["ConfigMap"], "appendfsync everysec")
		}},
		// Amounts that the API server writes in another way than people may.
		{field: "managed.memory", change: func(s *spec) { s.Managed.Memory = quantity("1024Mi") }, effect: func(b *bench) bool {
			limit := container(b).Resources.Limits[corev1.ResourceMemory]
			return limit.Equal(resource.MustParse("1Gi")) && strings.Contains(b.children()["ConfigMap"], "maxmemory 751619")
		}},
		{field: "managed.cpuRequest", change: func(s *spec) { s.Managed.CPURequest = quantity("0.5") }, effect: func(b *bench) bool {
			request := container(b).Resources.Requests[corev1.ResourceCPU]
			return request.Equal(resource.MustParse("500m"))
		}},
		{field: "managed.tls.mode", change: func(s *spec) {
			s.Managed.TLS = &v1alpha1.ManagedTLS{Mode: v1alpha1.ManagedTLSSecret, SecretName: "locks-tls"}
		}, effect: func(b *bench) bool {
			return b.instance.Status.Endpoint.TLS == v1alpha1.TLSVerify && slices.Contains(container(b).LivenessProbe.Exec.Command, "--tls")
		}},
		{field: "managed.tls.mode", of: secured, change: func(s *spec) { s.Managed.TLS = nil }, effect: func(b *bench) bool {
			return b.instance.Status.Endpoint.TLS == v1alpha1.TLSDisabled && !slices.Contains(container(b).LivenessProbe.Exec.Command, "--tls")
		}},
		{field: "managed.tls.secretName", of: secured, change: func(s *spec) { s.Managed.TLS.SecretName = "" }, refused: "secretName belongs to mode Secret"},
		{field: "managed.tls.secretName", of: secured, change: func(s *spec) { s.Managed.TLS.SecretName = "other-tls" }, effect: func(b *bench) bool {
			return strings.Contains(b.children()["StatefulSet"], `"secretName":"other-tls"`)
		}},
		{field: "managed.networkPolicy", change: func(s *spec) { s.Managed.NetworkPolicy = v1alpha1.ChildDisabled }, effect: func(b *bench) bool {
			return b.children()["NetworkPolicy"] == ""
		}},
		{field: "managed.podDisruptionBudget", change: func(s *spec) { s.Managed.PodDisruptionBudget = v1alpha1.ChildDisabled }, effect: func(b *bench) bool {
			return b.children()["PodDisruptionBudget"] == ""
		}},
		{field: "managed.securityProfile", change: func(s *spec) { s.Managed.SecurityProfile = v1alpha1.SecurityPlatformManaged }, effect: func(b *bench) bool {
			return b.pod().Spec.SecurityContext.RunAsUser == nil
		}},
		{field: "managed.scheduling.nodeSelector", change: schedule(func(s *v1alpha1.Scheduling) { s.NodeSelector = map[string]string{"a": "b"} }), effect: func(b *bench) bool {
			return b.pod().Spec.NodeSelector["a"] == "b"
		}},
		{field: "managed.scheduling.tolerations", change: schedule(func(s *v1alpha1.Scheduling) {
			s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}, {Key: "a", Value: "b", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(5))}}
		}), effect: func(b *bench) bool { return len(b.pod().Spec.Tolerations) == 2 }},
		{field: "managed.scheduling.affinity", change: schedule(func(s *v1alpha1.Scheduling) {
			s.Affinity = &runtime.RawExtension{Raw: []byte(`{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":{"topologyKey":"a","labelSelector":{}}}]},"nodeAffinity":{}}`)}
		}), effect: func(b *bench) bool {
			return b.pod().Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.TopologyKey == "a"
		}},
		{field: "managed.scheduling.priorityClassName", change: schedule(func(s *v1alpha1.Scheduling) { s.PriorityClassName = "high" }), effect: func(b *bench) bool {
			return b.pod().Spec.PriorityClassName == "high"
		}},
		{field: "managed.podMetadata.labels", change: func(s *spec) { s.Managed.PodMetadata = &v1alpha1.PodMetadata{Labels: map[string]string{"a": "b"}} }, effect: func(b *bench) bool {
			return b.pod().Labels["a"] == "b"
		}},
		{field: "managed.podMetadata.labels", change: func(s *spec) {
			s.Managed.PodMetadata = &v1alpha1.PodMetadata{Labels: map[string]string{"app.kubernetes.io/name": "b"}}
		}, refused: "labels of lockstead.dev and app.kubernetes.io are the operator's"},
		{field: "managed.podMetadata.annotations", change: func(s *spec) { s.Managed.PodMetadata = &v1alpha1.PodMetadata{Annotations: map[string]string{"a": "b"}} }, effect: func(b *bench) bool {
			return b.pod().Annotations["a"] == "b"
		}},

		{field: "external.host", of: elsewhere, change: func(s *spec) { s.External.Host = "other.example.com" }, refused: "host is immutable: another server has other locks"},
		{field: "external.port", of: elsewhere, change: func(s *spec) { s.External.Port = 6380 }, refused: "port is immutable: another server has other locks"},
		{field: "external.tls.mode", of: elsewhere, change: func(s *spec) { s.External.TLS.Mode = v1alpha1.TLSVerify }, effect: func(b *bench) bool {
			return b.instance.Status.Endpoint.TLS == v1alpha1.TLSVerify
		}},
		{field: "external.adminCredentials.secretName", of: elsewhere, change: func(s *spec) { s.External.AdminCredentials.SecretName = "other" }, effect: func(b *bench) bool {
			return strings.Contains(b.wantUnavailable(v1alpha1.ReasonCredentialsInvalid), "Secret other does not exist")
		}},
		{field: "external.aclManagement", of: elsewhere, change: func(s *spec) {
			s.External.ACLManagement, s.External.TenantCredentials = v1alpha1.ACLManagementStatic, &v1alpha1.TenantCredentials{SecretName: "app"}
		}, refused: "aclManagement cannot become Static"},
		{field: "external.aclManagement", of: elsewhere, change: func(s *spec) { s.External.ACLManagement = v1alpha1.ACLManagementStatic }, refused: "tenantCredentials belong to aclManagement: Static"},
		{field: "external.tenantCredentials.secretName", of: shared, change: func(s *spec) { s.External.TenantCredentials.SecretName = "other" }, effect: func(b *bench) bool {
			return strings.Contains(b.wantUnavailable(v1alpha1.ReasonCredentialsInvalid), "Secret other does not exist")
		}},
	} {
		t.Run(tc.field, func(t *testing.T) {
			var b *bench
			switch tc.of {
			case elsewhere:
				b, _ = externalBench(t)
			case shared:
				server := redistest.Start(t, nil)
				spec := external()
				spec.External.ACLManagement, spec.External.TenantCredentials = v1alpha1.ACLManagementStatic, &v1alpha1.TenantCredentials{SecretName: "admin"}
				b = newBench(t, spec)
				b.address = server.Addr()
				b.secret("admin", map[string]string{"username": "admin", "password": server.AdminPassword()})
			case secured:
				b = newBench(t, securedManaged())
			default:
				b = newBench(t, managed())
			}
			certificate := redistest.NewAuthority(t).Issue(t, b.host(), year)
			for _, name := range []string{"locks-tls", "other-tls"} {
				environment.Create(t, &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name},
					Data:       map[string][]byte{"tls.crt": certificate.Certificate, "tls.key": certificate.Key, "ca.crt": certificate.CA},
				})
			}
			b.settle()
			before, spec := b.children(), b.instance.Spec.DeepCopy()
			tc.change(&b.instance.Spec)
			err := environment.Admin.Update(t.Context(), b.instance)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("the answer is %v, want %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b.settle()
			if tc.effect != nil && !tc.effect(b) {
				t.Errorf("the change has no effect: there is %v", b.children())
			}
			b.instance.Spec = *spec
			if err := environment.Admin.Update(t.Context(), b.instance); err != nil {
				t.Fatal(err)
			}
			b.settle()
			if after := b.children(); !reflect.DeepEqual(before, after) {
				t.Errorf("changed back, there is\n%v\nwhere there was\n%v", after, before)
			}
			if strings.HasPrefix(tc.field, "external") {
				b.wantCondition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
			} else {
				b.wantUnavailable(v1alpha1.ReasonPodNotReady)
			}
		})
		covered[tc.field] = true
	}
	for _, field := range specFields(t) {
		if !covered[field] {
			t.Errorf("spec.%s has no case in this test", field)
		}
	}
}
