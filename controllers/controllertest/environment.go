// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllertest runs a real API server with the project's kinds for the tests of the controllers.
//
// Start one server in TestMain, give each test a namespace of its own, and call reconcilers directly: a test then decides when something
// happens, and waits for nothing. Manager is a client with exactly the rights of the generated role, so that a right which the markers
// forget fails a test.
package controllertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// Environment is a running API server.
type Environment struct {
	// Config is the administrator's.
	Config *rest.Config
	// Admin may do everything.
	Admin client.WithWatch
	// Manager has the rights of config/rbac/role.yaml and no others.
	Manager client.WithWatch
	// ManagerConfig is what Manager was made from.
	ManagerConfig *rest.Config

	server *envtest.Environment
}

// managerUser is whom Manager impersonates.
const managerUser = "system:serviceaccount:lockstead-system:lockstead"

// Scheme knows the built-in kinds and the project's.
func Scheme() *apiruntime.Scheme {
	scheme := apiruntime.NewScheme()
	for _, add := range []func(*apiruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // two kinds of one name: a fault of the program
		}
	}
	return scheme
}

// Run starts an API server, runs the tests of a package, stops the server and returns the exit code.
func Run(m *testing.M, environment **Environment) int {
	started, err := Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*environment = started
	code := m.Run()
	if err := started.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Start starts an API server with the CRDs and the manager's role.
func Start(ctx context.Context) (*Environment, error) {
	root, err := repository()
	if err != nil {
		return nil, fmt.Errorf("find the work tree: %w", err)
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		command := exec.CommandContext(ctx, filepath.Join(root, "hack", "cluster", "assets.sh"))
		command.Stderr = os.Stderr
		output, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("build the API server (or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver): %w", err)
		}
		assets = strings.TrimSpace(string(output))
	}
	server := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{filepath.Join(root, "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	config, err := server.Start()
	if err != nil {
		// It may have got as far as running the server.
		return nil, errors.Join(fmt.Errorf("start the API server: %w", err), server.Stop())
	}
	e := &Environment{Config: config, server: server}
	if err := e.prepare(ctx, root); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return e, nil
}

func (e *Environment) prepare(ctx context.Context, root string) (err error) {
	options := client.Options{Scheme: Scheme()}
	if e.Admin, err = client.NewWithWatch(e.Config, options); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	e.ManagerConfig = rest.CopyConfig(e.Config)
	e.ManagerConfig.Impersonate = rest.ImpersonationConfig{UserName: managerUser}
	if e.Manager, err = client.NewWithWatch(e.ManagerConfig, options); err != nil {
		return fmt.Errorf("make the manager's client: %w", err)
	}
	return e.grant(ctx, filepath.Join(root, "config", "rbac", "role.yaml"))
}

// grant gives the manager's user the generated role.
func (e *Environment) grant(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the manager's role (make manifests writes it): %w", err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	binding := rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: managerUser}},
	}
	for _, object := range []client.Object{&role, &binding} {
		if err := e.Admin.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("grant the manager's role: %w", err)
		}
	}
	return nil
}

// Stop stops the API server.
func (e *Environment) Stop() error { return e.server.Stop() }

// Namespace creates a namespace for a test, with labels. Its name is generated, with the prefix "test-" unless another is given.
func (e *Environment) Namespace(t testing.TB, labels map[string]string, prefix ...string) string {
	t.Helper()
	generate := "test-"
	if len(prefix) > 0 {
		generate = prefix[0]
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: generate, Labels: labels}}
	if err := e.Admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// Create creates objects as the administrator.
func (e *Environment) Create(t testing.TB, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := e.Admin.Create(t.Context(), object); err != nil {
			t.Fatalf("create %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

// Get reads the present state of an object into it.
func (e *Environment) Get(t testing.TB, object client.Object) {
	t.Helper()
	if err := e.Admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
}

// repository is the root of the work tree: the folder with go.work above the one that go test runs a package in. The path of this file is
// no help, since -trimpath takes it out of the binary.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for folder := dir; ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.work")); err == nil {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("no go.work in %s or above it", dir)
		}
	}
}
