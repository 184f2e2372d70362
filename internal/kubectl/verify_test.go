// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func TestVerifyOnRedis(t *testing.T) {
	server := redistest.Start(t, nil)
	a := onRedis(t, server, environment.Namespace(t, nil), "billing")
	config := kubeconfig(t, a.lns.Namespace)
	s := wantDone(t, say(t, config, "", "verify", "-o", "json"))
	var v verification
	if err := json.Unmarshal([]byte(s.out), &v); err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]outcome{}
	for _, step := range v.Steps {
		outcomes[step.Name] = step.Outcome
	}
	for name, want := range map[string]outcome{"operator": passed, "binding": passed, "pods": noticed, "DNS": skipped, "connection": passed, "TLS": noticed, "login, ACL and lock": passed} {
		if outcomes[name] != want {
			t.Errorf("step %s is %q, want %q:\n%s", name, outcomes[name], want, s.out)
		}
	}
	if s := wantDone(t, say(t, config, "", "locks")); s.out != "" {
		t.Errorf("verify left a lock:\n%s", s.out)
	}

	// Behind a tunnel to a server that does not know the application.
	wantProblem(t, say(t, config, "", "verify", "--redis-address", redistest.Start(t, nil).Addr()), ExitFailure, "cannot lock", "WRONGPASS")
	server.Kill(t)
	s = say(t, config, "", "verify")
	wantProblem(t, s, ExitFailure, "cannot be reached", "--redis-address")
	if strings.Contains(s.out+s.err, a.binding.Redis.Password) {
		t.Error("it prints the password")
	}
}

func TestVerifyOnLeases(t *testing.T) {
	a := onLeases(t, environment.Namespace(t, nil), "billing")
	config := kubeconfig(t, a.lns.Namespace)
	if s := wantDone(t, say(t, config, "", "verify")); !strings.Contains(s.out, "ok       rights of service account default: it may write Leases") {
		t.Errorf("it prints\n%s", s.out)
	}
	wantProblem(t, say(t, config, "", "verify", "--as", "nobody"), ExitFailure, `cannot list resource "locknamespaces"`)

	// Whoever may not ask for others' rights is told so, and nothing fails for it.
	grant(t, a.lns.Namespace, "developer", rule(v1alpha1.Group, "locknamespaces", "list"), rule("", "secrets", "get"))
	if s := wantDone(t, say(t, config, "", "verify", "--as", "developer")); strings.Count(s.out, "skipped ") != 2 {
		t.Errorf("it prints\n%s", s.out)
	}

	environment.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: a.lns.Namespace, Name: "robot-0"}, Spec: mounting("billing-lock", "robot", "")})
	wantProblem(t, say(t, config, "", "verify"), ExitFailure, "pod robot-0 runs as service account robot", "spec.consumers")
}

// The operator repairs what it made, so the fault is one that it does not look at: a consumer whose rights nobody bound.
func TestVerifyTellsWhichRightIsMissing(t *testing.T) {
	namespace := environment.Namespace(t, nil)
	grant(t, namespace, "reader", rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list"}})
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "robot"}},
	}
	environment.Create(t, binding)
	c, err := newCluster(environment.Config, namespace, "")
	if err != nil {
		t.Fatal(err)
	}
	lns := &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "billing"}}
	if s := c.checkAccount(t.Context(), lns, "robot"); s.Outcome != failed || !strings.Contains(s.Says, "it may not watch, create, update, delete Leases: see whether RoleBinding lockstead-billing") {
		t.Errorf("it says %+v", s)
	}
}

// mounting is a pod that mounts a Secret.
func mounting(secret, account, subPath string) corev1.PodSpec {
	return corev1.PodSpec{
		ServiceAccountName: account,
		Containers: []corev1.Container{{Name: "app", Image: "app", VolumeMounts: []corev1.VolumeMount{
			{Name: "lockstead", MountPath: "/var/run/lockstead", SubPath: subPath},
		}}},
		Volumes: []corev1.Volume{{Name: "lockstead", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}},
	}
}

func TestPodsThatMountTheSecret(t *testing.T) {
	lns := &v1alpha1.LockNamespace{Spec: v1alpha1.LockNamespaceSpec{Consumers: []string{"default"}}}
	lns.Status.Binding = &v1alpha1.BindingReference{Name: "billing-lock"}
	lns.Status.Backend = v1alpha1.BackendLease
	projected := mounting("", "", "")
	projected.Volumes[0].VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "billing-lock"}}},
	}}}
	for name, tc := range map[string]struct {
		spec corev1.PodSpec
		want outcome
	}{
		"as it should be": {mounting("billing-lock", "default", ""), passed},
		"projected":       {projected, passed},
		"another Secret":  {mounting("other", "default", ""), noticed},
		"subPath":         {mounting("billing-lock", "default", "password"), failed},
		"another account": {mounting("billing-lock", "robot", ""), failed},
	} {
		if got := judgePods(lns, []corev1.Pod{{Spec: tc.spec}}); got.Outcome != tc.want {
			t.Errorf("%s: %+v, want %s", name, got, tc.want)
		}
	}
}
