// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// kubectl gives the path of the one that belongs to the API server of the tests.
func kubectl(t *testing.T) string {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run the tests with 'make test', or set it to the output of hack/cluster/assets.sh")
	}
	return filepath.Join(assets, "kubectl")
}

// kustomize gives the objects of config/default with components of config/components, built by the kustomize that is in kubectl.
func kustomize(t *testing.T, components ...string) objects {
	t.Helper()
	kustomization := map[string]any{"resources": []string{"lockstead/config/default"}}
	if len(components) > 0 {
		paths := make([]string, len(components))
		for i, name := range components {
			paths[i] = "lockstead/config/components/" + name
		}
		kustomization["components"] = paths
	}
	content, err := yaml.Marshal(kustomization)
	if err != nil {
		t.Fatal(err)
	}
	return build(t, string(content))
}

// build gives the objects of a kustomization that has a checkout of this repository beside it, in the folder lockstead.
func build(t *testing.T, kustomization string) objects {
	t.Helper()
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	// kustomize resolves symbolic links before it follows relative paths, so the folder is put in by its relative path.
	overlay, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(overlay, repository)
	if err != nil {
		t.Fatal(err)
	}
	content := strings.ReplaceAll(kustomization, "- lockstead/", "- "+up+"/")
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var messages bytes.Buffer
	command := exec.CommandContext(t.Context(), kubectl(t), "kustomize", overlay)
	command.Stderr = &messages
	output, err := command.Output()
	if err != nil {
		t.Fatalf("kubectl kustomize: %v\n%s\n%s", err, messages.String(), content)
	}
	return decode(t, string(output))
}

// difference is one that is meant between the objects of the chart and those of kustomize.
type difference struct {
	// reason says why it is meant.
	reason string
	// remove takes it out of an object, and reports whether it was there. An object that is all difference becomes empty.
	remove func(*unstructured.Unstructured) bool
}

// withoutLabel removes a label also from the template of pods.
func withoutLabel(name string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		found := removeEntry(object, "metadata", "labels", name)
		return removeEntry(object, "spec", "template", "metadata", "labels", name) || found
	}
}

func removeEntry(object *unstructured.Unstructured, path ...string) bool {
	if _, found, err := unstructured.NestedFieldNoCopy(object.Object, path...); err != nil || !found {
		return false
	}
	unstructured.RemoveNestedField(object.Object, path...)
	return true
}

var (
	chartOnly = []difference{
		{"Helm's note of the chart's version", withoutLabel("helm.sh/chart")},
		{"it names the installer", withoutLabel("app.kubernetes.io/managed-by")},
		{"it tells Helm to keep the CRDs on uninstall; kubectl deletes only what it is told to", func(object *unstructured.Unstructured) bool {
			return removeEntry(object, "metadata", "annotations", "helm.sh/resource-policy")
		}},
	}
	kustomizeOnly = []difference{
		{"it does not know that the kind has no namespace; the API server drops it", func(object *unstructured.Unstructured) bool {
			return strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") && removeEntry(object, "metadata", "namespace")
		}},
		{"it names the installer", withoutLabel("app.kubernetes.io/managed-by")},
		{"Helm makes the namespace by --create-namespace", func(object *unstructured.Unstructured) bool {
			if object.GetKind() != "Namespace" {
				return false
			}
			object.Object = nil
			return true
		}},
	}
)

// normalised gives each object as text under its kind and name, without the differences that are meant.
func normalised(t *testing.T, all objects, meant []difference) map[string]string {
	t.Helper()
	result, used := map[string]string{}, make([]bool, len(meant))
	for _, object := range all {
		for i, d := range meant {
			used[i] = d.remove(object) || used[i]
		}
		if len(object.Object) == 0 {
			continue
		}
		name := fmt.Sprintf("%s %s/%s", object.GroupVersionKind(), object.GetNamespace(), object.GetName())
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := result[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		result[name] = string(text)
	}
	for i, d := range meant {
		if !used[i] {
			t.Errorf("the difference %q is no more: take it off the list", d.reason)
		}
	}
	return result
}

// sameAsChart has the components of kustomize beside the values of the chart that mean the same.
var sameAsChart = map[string]struct {
	components []string
	values     string
}{
	"default":           {},
	"high-availability": {[]string{"high-availability"}, "replicas=2,podDisruptionBudget.enabled=true"},
	"service-monitor":   {[]string{"service-monitor"}, "metrics.serviceMonitor.enabled=true"},
	"all components": {
		[]string{"high-availability", "service-monitor"},
		"replicas=2,podDisruptionBudget.enabled=true,metrics.serviceMonitor.enabled=true",
	},
}

// Who installs without Helm gets the same operator.
func TestKustomizeEqualsChart(t *testing.T) {
	t.Parallel()
	for name, tc := range sameAsChart {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The names of a release that is called like the chart are those of kustomize.
			byChart := normalised(t, renderRelease(t, "lockstead", "--set", tc.values), chartOnly)
			byKustomize := normalised(t, kustomize(t, tc.components...), kustomizeOnly)
			for object, want := range byChart {
				switch got, found := byKustomize[object]; {
				case !found:
					t.Errorf("kustomize does not make %s", object)
				case got != want:
					t.Errorf("%s differs (- chart, + kustomize):\n%s", object, lineDifference(want, got))
				}
			}
			for object := range byKustomize {
				if _, found := byChart[object]; !found {
					t.Errorf("only kustomize makes %s", object)
				}
			}
		})
	}
}

func TestEveryComponentIsCompared(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(root + "/config/components")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if tc, found := sameAsChart[entry.Name()]; !found || !slices.Equal(tc.components, []string{entry.Name()}) {
			t.Errorf("component %s is not compared with the values of the chart that mean the same", entry.Name())
		}
	}
}

// The comparison must see a difference in any place.
func TestComparisonSeesDifferences(t *testing.T) {
	t.Parallel()
	want := normalised(t, kustomize(t), kustomizeOnly)
	for name, change := range map[string]func(*unstructured.Unstructured) error{
		"a label of the pods": func(o *unstructured.Unstructured) error {
			return unstructured.SetNestedField(o.Object, "x", "spec", "template", "metadata", "labels", "team")
		},
		"a number": func(o *unstructured.Unstructured) error {
			return unstructured.SetNestedField(o.Object, int64(3), "spec", "replicas")
		},
		"an absent field": func(o *unstructured.Unstructured) error {
			unstructured.RemoveNestedField(o.Object, "spec", "template", "spec", "securityContext", "runAsNonRoot")
			return nil
		},
	} {
		all := kustomize(t)
		deployment := all.find("Deployment", "lockstead")
		if deployment == nil {
			t.Fatal("no Deployment")
		}
		if err := change(deployment); err != nil {
			t.Fatal(err)
		}
		differ := 0
		for object, text := range normalised(t, all, kustomizeOnly) {
			if want[object] != text {
				differ++
			}
		}
		if differ != 1 {
			t.Errorf("%s: %d objects differ, want the Deployment", name, differ)
		}
	}
}

// The page about kustomize has examples that people copy.
func TestKustomizeDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(root + "/docs/install-with-kustomize.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(page), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of YAML, want a kustomization, a RedisInstance and the patch for it", len(blocks))
	}
	var instance v1alpha1.RedisInstance
	if err := yaml.UnmarshalStrict([]byte(blocks[1]), &instance); err != nil || instance.Kind != "RedisInstance" {
		t.Errorf("the RedisInstance: %v\n%s", err, blocks[1])
	}
	all := build(t, blocks[0]+blocks[2])
	for _, object := range all {
		if namespace := object.GetNamespace(); namespace != "" && namespace != "locks" {
			t.Errorf("%s %s is in namespace %s", object.GetKind(), object.GetName(), namespace)
		}
		subjects, _, err := unstructured.NestedSlice(object.Object, "subjects")
		if err != nil {
			t.Error(err)
		}
		for _, subject := range subjects {
			if fields, _ := subject.(map[string]any); fields["namespace"] != "locks" {
				t.Errorf("%s %s is for %v", object.GetKind(), object.GetName(), subject)
			}
		}
	}
	for kind, name := range map[string]string{"Namespace": "locks", "PodDisruptionBudget": "lockstead", "ServiceMonitor": "lockstead"} {
		if all.find(kind, name) == nil {
			t.Errorf("no %s %s", kind, name)
		}
	}
	deployment := typed[appsv1.Deployment](t, all, "Deployment", "lockstead")
	manager := deployment.Spec.Template.Spec.Containers[0]
	if *deployment.Spec.Replicas != 2 || manager.Image != "registry.example.com/lockstead:0.1.0" ||
		!slices.Contains(manager.Args, "--default-instance="+instance.Namespace+"/"+instance.Name) {
		t.Errorf("%d replicas of %s with %q", *deployment.Spec.Replicas, manager.Image, manager.Args)
	}
}

// lineDifference lists the lines that only one of two texts has, in order; enough to see what to change.
func lineDifference(want, got string) string {
	wantLines, gotLines := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	for _, line := range wantLines {
		if !slices.Contains(gotLines, line) {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	for _, line := range gotLines {
		if !slices.Contains(wantLines, line) {
			fmt.Fprintf(&b, "+ %s\n", line)
		}
	}
	if b.Len() == 0 {
		return want + "\n" + got
	}
	return b.String()
}
