// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The admission of a real API server holds the pods to the restricted Pod Security Standard, and says what it makes of every object.
func TestInstallOnServer(t *testing.T) {
	t.Parallel()
	kube, kubeconfig := startServer(t)
	restricted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "restricted", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "operator", Namespace: restricted.Name}}
	for _, object := range []client.Object{restricted, account} {
		if err := kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	admit := func(name string, template corev1.PodTemplateSpec) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: restricted.Name, Labels: template.Labels}, Spec: template.Spec}
		pod.Spec.ServiceAccountName = account.Name
		return kube.Create(t.Context(), pod, client.DryRunAll)
	}

	everything := "podAnnotations.a=b,podLabels.a=b,nodeSelector.a=b,priorityClassName=system-cluster-critical," +
		"imagePullSecrets[0].name=registry,extraArgs[0]=--leader-elect,metrics.certificateSecret=certs,podDisruptionBudget.enabled=true," +
		"networkPolicy.enabled=true,networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.a=b"
	for name, all := range map[string]objects{
		"chart":                 render(t),
		"chart-with-everything": render(t, "--set", everything),
		"kustomize":             kustomize(t),
	} {
		pods := 0
		for _, object := range all {
			switch object.GetKind() {
			case "Deployment":
				pods++
				if err := admit(name, typed[appsv1.Deployment](t, all, "Deployment", object.GetName()).Spec.Template); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			case "Pod", "Job", "CronJob", "DaemonSet", "StatefulSet", "ReplicaSet":
				t.Errorf("%s renders a %s, whose pods are not examined here", name, object.GetKind())
			}
		}
		if pods != 1 {
			t.Errorf("%s: %d pods were examined", name, pods)
		}
	}
	loose := typed[appsv1.Deployment](t, render(t), "Deployment", "").Spec.Template
	loose.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = new(true)
	if err := admit("loose", loose); err == nil || !strings.Contains(err.Error(), "allowPrivilegeEscalation") {
		t.Errorf("the server does not refuse a pod that may escalate: %v", err)
	}

	// kubectl asks the server to refuse unknown and repeated fields. The second time nothing is left to change.
	for attempt, want := range []string{"created", "unchanged"} {
		command := exec.CommandContext(t.Context(), kubectl(t), "--kubeconfig", kubeconfig, "apply", "--kustomize", root+"/config/default")
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl apply, attempt %d: %v\n%s", attempt+1, err, output)
		}
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		if want, got := len(kustomize(t)), len(lines); got != want {
			t.Errorf("kubectl apply names %d objects, want %d:\n%s", got, want, output)
		}
		for _, line := range lines {
			if !strings.HasSuffix(line, " "+want) {
				t.Errorf("attempt %d: %s", attempt+1, line)
			}
		}
	}

	// What the default values of the chart do not make.
	strict := client.WithFieldValidation(kube, metav1.FieldValidationStrict)
	for _, object := range render(t, "--set", everything) {
		if object.GetNamespace() == "" {
			continue
		}
		if err := strict.Create(t.Context(), object, client.DryRunAll); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}

	// The manifests of the examples, which users copy.
	for _, file := range []string{"worker/deploy/worker.yaml", "orders/deploy/orders.yaml"} {
		path := root + "/examples/" + file
		command := exec.CommandContext(t.Context(), kubectl(t), "--kubeconfig", kubeconfig, "--namespace", restricted.Name, "apply", "--dry-run=server", "--validate=strict", "--filename", path)
		if output, err := command.CombinedOutput(); err != nil || strings.Contains(string(output), "Warning") {
			t.Errorf("kubectl apply of %s: %v\n%s", file, err, output)
		}
		manifests, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		template := typed[appsv1.Deployment](t, decode(t, string(manifests)), "Deployment", "").Spec.Template
		if err := admit("example", template); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
