// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart tests what the Helm chart renders, with the real Helm.
package chart

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	root  = "../.."
	chart = "charts/lockstead"
	// redisInstance is the API that a cluster has once the CRDs are installed.
	redisInstance = "lockstead.dev/v1alpha1/RedisInstance"
)

// helm runs Helm at the root of the repository and gives its output, with the messages when it failed.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program := os.Getenv("HELM")
	if program == "" {
		path, err := exec.CommandContext(t.Context(), root+"/hack/helm.sh").Output()
		if err != nil {
			t.Fatalf("hack/helm.sh: %v", err)
		}
		program = strings.TrimSpace(string(path))
	}
	var messages bytes.Buffer
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir = root
	command.Stderr = &messages
	output, err := command.Output()
	if err != nil {
		return messages.String(), err
	}
	return string(output), nil
}

// render gives the objects that the chart makes for a release of another name.
func render(t *testing.T, args ...string) objects {
	t.Helper()
	return renderRelease(t, "locks", args...)
}

func renderRelease(t *testing.T, release string, args ...string) objects {
	t.Helper()
	output, err := helm(t, slices.Concat([]string{"template", release, chart, "--namespace", "lockstead-system"}, args)...)
	if err != nil {
		t.Fatalf("helm template %q: %v\n%s", args, err, output)
	}
	return decode(t, output)
}

// decode reads YAML documents strictly.
func decode(t *testing.T, documents string) objects {
	t.Helper()
	var all objects
	for document := range strings.SplitSeq(documents, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			t.Fatalf("rendered YAML: %v\n%s", err, document)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
	return all
}

type objects []*unstructured.Unstructured

func (o objects) find(kind, name string) *unstructured.Unstructured {
	for _, object := range o {
		if object.GetKind() == kind && (name == "" || object.GetName() == name) {
			return object
		}
	}
	return nil
}

// typed decodes the object of a kind and name strictly: a field that the API does not know is an error.
func typed[T any](t *testing.T, all objects, kind, name string) *T {
	t.Helper()
	object := all.find(kind, name)
	if object == nil {
		t.Fatalf("no %s %s was rendered", kind, name)
	}
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		t.Fatalf("%s %s: %v", kind, name, err)
	}
	return into
}

func TestLint(t *testing.T) {
	t.Parallel()
	if output, err := helm(t, "lint", "--strict", chart); err != nil {
		t.Errorf("helm lint: %v\n%s", err, output)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	all := render(t)
	deployment := typed[appsv1.Deployment](t, all, "Deployment", "locks-lockstead")
	pod := deployment.Spec.Template.Spec
	checkRestricted(t, pod)
	manager := pod.Containers[0]
	for _, arg := range manager.Args {
		if strings.HasPrefix(arg, "--default-instance") {
			t.Errorf("a default instance without the switch: %s", arg)
		}
	}
	if !slices.Contains(manager.Args, "--leader-elect") {
		t.Errorf("no leader election: %q", manager.Args)
	}
	if manager.LivenessProbe == nil || manager.ReadinessProbe == nil {
		t.Error("no probes")
	}
	if all.find("RedisInstance", "") != nil || all.find("PodDisruptionBudget", "") != nil || all.find("ServiceMonitor", "") != nil {
		t.Error("an object of an optional feature was rendered by default")
	}
	if pod.ServiceAccountName != typed[corev1.ServiceAccount](t, all, "ServiceAccount", "").Name {
		t.Errorf("the pod's service account %q is not the one that is made", pod.ServiceAccountName)
	}
	for _, name := range []string{"redisinstances.lockstead.dev", "locknamespaces.lockstead.dev"} {
		crd := all.find("CustomResourceDefinition", name)
		if crd == nil {
			t.Errorf("CRD %s is missing", name)
			continue
		}
		if crd.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("CRD %s would go with the release, and every object with it", name)
		}
	}
}

// checkRestricted holds the pod to the restricted Pod Security Standard.
func checkRestricted(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	if pod.SecurityContext == nil || pod.SecurityContext.RunAsNonRoot == nil || !*pod.SecurityContext.RunAsNonRoot ||
		pod.SecurityContext.SeccompProfile == nil || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("pod security context: %+v", pod.SecurityContext)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("the pod uses a namespace of the host")
	}
	for _, container := range pod.Containers {
		security := container.SecurityContext
		if security == nil || security.AllowPrivilegeEscalation == nil || *security.AllowPrivilegeEscalation ||
			security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem ||
			security.Capabilities == nil || !slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("container %s: security context %+v", container.Name, security)
		}
		if container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
			t.Errorf("container %s has no memory request or limit", container.Name)
		}
	}
}

// The rules must be exactly what controller-gen derived from the code, and never a wildcard.
func TestManagerRules(t *testing.T) {
	t.Parallel()
	generated, err := os.ReadFile(root + "/config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(generated, &want); err != nil {
		t.Fatal(err)
	}
	all := render(t)
	got := typed[rbacv1.ClusterRole](t, all, "ClusterRole", "locks-lockstead-manager")
	gotRules, err := yaml.Marshal(got.Rules)
	if err != nil {
		t.Fatal(err)
	}
	wantRules, err := yaml.Marshal(want.Rules)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(gotRules, wantRules) {
		t.Errorf("the chart's rules differ from config/rbac/role.yaml; run 'make manifests'\n%s\n%s", gotRules, wantRules)
	}
	for _, object := range all {
		if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" {
			continue
		}
		role := typed[rbacv1.ClusterRole](t, all, object.GetKind(), object.GetName())
		for _, rule := range role.Rules {
			if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*") {
				t.Errorf("%s %s has a wildcard: %+v", object.GetKind(), object.GetName(), rule)
			}
		}
	}
}

func TestDefaultRedisInstance(t *testing.T) {
	t.Parallel()
	enabled := []string{"--set", "defaultRedisInstance.enabled=true,defaultRedisInstance.name=shared,defaultRedisInstance.spec.mode=Managed"}

	// The CRD comes with the same release: Helm can make the object only after it, by a hook.
	first := render(t, enabled...)
	instance := first.find("RedisInstance", "shared")
	if instance == nil || instance.GetNamespace() != "lockstead-system" {
		t.Fatalf("RedisInstance: %v", instance)
	}
	if hook := instance.GetAnnotations()["helm.sh/hook"]; hook != "post-install,post-upgrade" {
		t.Errorf("on the first install the hook is %q", hook)
	}
	manager := typed[appsv1.Deployment](t, first, "Deployment", "").Spec.Template.Spec.Containers[0]
	if !slices.Contains(manager.Args, "--default-instance=lockstead-system/shared") {
		t.Errorf("arguments %q do not name the default instance", manager.Args)
	}
	mode, _, err := unstructured.NestedString(instance.Object, "spec", "mode")
	if err != nil || mode != "Managed" {
		t.Errorf("spec.mode %q, %v", mode, err)
	}

	// Helm deletes the object of a hook before it makes it again, and with it the locks that are held in it. So where the
	// kind exists it must be an ordinary object, which Helm adopts and keeps.
	later := render(t, append(enabled, "--api-versions", redisInstance)...).find("RedisInstance", "shared")
	if later == nil {
		t.Fatal("with the CRD in the cluster no RedisInstance was rendered")
	}
	annotations := later.GetAnnotations()
	if _, isHook := annotations["helm.sh/hook"]; isHook {
		t.Error("with the CRD in the cluster the object is still a hook: an upgrade would delete it")
	}
	if annotations["helm.sh/resource-policy"] != "keep" || annotations["meta.helm.sh/release-name"] != "locks" ||
		annotations["meta.helm.sh/release-namespace"] != "lockstead-system" || later.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
		t.Errorf("Helm would not adopt or keep the object: %v %v", annotations, later.GetLabels())
	}

	// An instance that somebody else makes is only named.
	named := render(t, append(enabled, "--set", "defaultRedisInstance.create=false,defaultRedisInstance.namespace=redis")...)
	if named.find("RedisInstance", "") != nil {
		t.Error("create=false made a RedisInstance")
	}
	manager = typed[appsv1.Deployment](t, named, "Deployment", "").Spec.Template.Spec.Containers[0]
	if !slices.Contains(manager.Args, "--default-instance=redis/shared") {
		t.Errorf("arguments %q do not name the default instance", manager.Args)
	}
}

func TestSwitches(t *testing.T) {
	t.Parallel()
	if all := render(t, "--set", "crds.enabled=false"); all.find("CustomResourceDefinition", "") != nil {
		t.Error("crds.enabled=false rendered a CRD")
	}
	crd := render(t, "--set", "crds.keep=false").find("CustomResourceDefinition", "")
	if crd == nil {
		t.Fatal("no CRD was rendered")
	}
	if crd.GetAnnotations()["helm.sh/resource-policy"] != "" {
		t.Error("crds.keep=false kept the CRD")
	}
	all := render(t, "--set", "podDisruptionBudget.enabled=true,metrics.serviceMonitor.enabled=true,image.digest=sha256:"+strings.Repeat("a", 64))
	if all.find("PodDisruptionBudget", "locks-lockstead") == nil || all.find("ServiceMonitor", "locks-lockstead") == nil {
		t.Error("an optional object is missing")
	}
	if image := typed[appsv1.Deployment](t, all, "Deployment", "").Spec.Template.Spec.Containers[0].Image; !strings.Contains(image, "@sha256:aaa") {
		t.Errorf("image %q ignores the digest", image)
	}
	all = render(t, "--set", "rbac.create=false,metrics.enabled=false,serviceAccount.create=false,serviceAccount.name=mine")
	for _, kind := range []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount", "Service"} {
		if object := all.find(kind, ""); object != nil {
			t.Errorf("%s %s was rendered although it is switched off", kind, object.GetName())
		}
	}
}

func TestRefusedNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ set, want string }{
		"misspelt value":               {"replicaCount=2", "replicaCount"},
		"misspelt nested value":        {"crds.enable=false", "enable"},
		"no service account to run as": {"serviceAccount.create=false", "serviceAccount.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := helm(t, "template", "locks", chart, "--set", tc.set)
			if err == nil {
				t.Fatalf("%s was accepted", tc.set)
			}
			if !strings.Contains(output, tc.want) {
				t.Errorf("the refusal of %s does not name %q:\n%s", tc.set, tc.want, output)
			}
		})
	}
}
