// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"context"
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
)

// Run runs the tests of a package between the start and the stop of a server. The tests get the server from use. The caller is
// TestMain and has locked its thread.
func Run(m *testing.M, use func(*Server)) error {
	server, err := Start(context.Background())
	if err != nil {
		return fmt.Errorf("start the Kubernetes API: %w", err)
	}
	use(server)
	// The test binary ends with the code that m keeps.
	m.Run()
	if err := server.Stop(); err != nil {
		return fmt.Errorf("stop the Kubernetes API: %w", err)
	}
	return nil
}

// LeaseVerbs are the rights that the lock needs.
var LeaseVerbs = []string{"get", "list", "watch", "create", "update", "delete"}

// Namespace makes a namespace for one test.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	core, err := corev1client.NewForConfig(s.unlimited())
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// ServiceAccount makes a service account with the verbs on Leases of the namespace and returns a config with a token of it.
func (s *Server) ServiceAccount(t testing.TB, namespace, name string, verbs []string) *rest.Config {
	t.Helper()
	ctx := t.Context()
	core, err := corev1client.NewForConfig(s.unlimited())
	if err != nil {
		t.Fatal(err)
	}
	accounts := core.ServiceAccounts(namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := s.Config()
	config.BearerToken = token.Status.Token
	if len(verbs) > 0 {
		s.grant(t, namespace, name, verbs)
		awaitGrant(t, config, namespace, verbs)
	}
	return config
}

// awaitGrant waits until the API server's authorizer has seen the new Role and RoleBinding, which it follows by a watch.
func awaitGrant(t testing.TB, config *rest.Config, namespace string, verbs []string) {
	t.Helper()
	client, err := authorizationv1client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verbs[0], Group: "coordination.k8s.io", Resource: "leases"},
	}}
	for {
		answer, err := client.SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status.Allowed {
			return
		}
	}
}

func (s *Server) grant(t testing.TB, namespace, account string, verbs []string) {
	t.Helper()
	rbac, err := rbacv1client.NewForConfig(s.unlimited())
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs}},
	}
	if _, err := rbac.Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
	}
	if _, err := rbac.RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Leases is the administrator's client for the Leases of a namespace.
func (s *Server) Leases(t testing.TB, namespace string) coordinationv1client.LeaseInterface {
	t.Helper()
	client, err := coordinationv1client.NewForConfig(s.unlimited())
	if err != nil {
		t.Fatal(err)
	}
	return client.Leases(namespace)
}

func (s *Server) unlimited() *rest.Config {
	config := s.Config()
	config.QPS = -1
	return config
}
