// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers"
	"github.com/lockstead/lockstead/controllers/controllertest"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

var environment *controllertest.Environment

func TestMain(m *testing.M) { os.Exit(controllertest.Run(m, &environment)) }

// patience is for a server under load; nothing waits for it to pass.
const patience = time.Minute

// startOperator runs all controllers with the rights of the generated role, until the test ends. Every connection goes to address.
func startOperator(t *testing.T, address string) {
	t.Helper()
	startOperatorWith(t, &redisadmin.Options{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
}

func startOperatorWith(t *testing.T, connections *redisadmin.Options) {
	t.Helper()
	unique := true // Controllers of one name in one process share a metric.
	mgr, err := ctrl.NewManager(environment.ManagerConfig, ctrl.Options{
		Scheme: controllertest.Scheme(), Cache: controllers.CacheOptions(), Client: controllers.ClientOptions(),
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Controller: config.Controller{SkipNameValidation: &unique},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := controllers.Setup(mgr, controllers.Options{Connector: redisadmin.NewConnector(connections)}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
}

// await watches one object until a state of it, or its absence (nil), is what the test waits for.
func await[T client.Object, L client.ObjectList](t *testing.T, object T, list L, what string, done func(T) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	selection := []client.ListOption{client.InNamespace(object.GetNamespace()), client.MatchingFields{"metadata.name": object.GetName()}}
	events, err := environment.Admin.Watch(ctx, list, selection...)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		seen, ok := event.Object.(T)
		if !ok {
			t.Fatalf("watching %s: %v", object.GetName(), event.Object)
		}
		if event.Type == watch.Deleted {
			var none T
			seen = none
		}
		if done(seen) {
			return
		}
	}
	t.Fatalf("%s: not %s after %s", object.GetName(), what, patience)
}

func awaitReason(t *testing.T, lns *v1alpha1.LockNamespace, reason string) {
	t.Helper()
	await(t, lns, &v1alpha1.LockNamespaceList{}, reason, func(seen *v1alpha1.LockNamespace) bool {
		ready := meta.FindStatusCondition(seen.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == reason && ready.ObservedGeneration == seen.Generation
	})
}

func lockNamespace(namespace, name string, instance string) *v1alpha1.LockNamespace {
	lns := &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if instance != "" {
		lns.Spec.InstanceRef = &v1alpha1.InstanceReference{Name: instance, Namespace: namespace}
	}
	return lns
}

// What people do in a cluster is noticed through watches, with no other right than the role's.
func TestLeasesInARunningOperator(t *testing.T) {
	startOperator(t, "")
	namespace := environment.Namespace(t, nil)
	lns := lockNamespace(namespace, "billing", "")
	environment.Create(t, lns)
	awaitReason(t, lns, v1alpha1.ReasonReady)

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "billing-lock"}}
	environment.Get(t, secret)
	former := secret.UID
	if err := environment.Admin.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	await(t, secret, &corev1.SecretList{}, "made again", func(seen *corev1.Secret) bool { return seen != nil && seen.UID != former })

	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lockstead-billing"}}
	environment.Get(t, role)
	role.Rules = nil
	if err := environment.Admin.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	await(t, role, &rbacv1.RoleList{}, "with rules again", func(seen *rbacv1.Role) bool { return seen != nil && len(seen.Rules) > 0 })
}

func TestAnAbandonedLeaseGoesInARunningOperator(t *testing.T) {
	startOperator(t, "")
	namespace := environment.Namespace(t, nil)
	lease, err := leaseformat.Create(namespace, leaseformat.Acquisition{
		Prefix: "lk:{" + namespace + "/app}:", Key: "k", ID: strings.Repeat("0a", 16), Duration: time.Second, Now: time.Unix(1, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	foreign := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "foreign"}, Spec: *lease.Spec.DeepCopy()}
	environment.Create(t, foreign, lease)
	await(t, lease, &coordinationv1.LeaseList{}, "deleted", func(seen *coordinationv1.Lease) bool { return seen == nil })
	environment.Get(t, foreign)
}

// external is a RedisInstance of a server under this host, and the Secret with its administrator.
func external(namespace, name, host, password string) (*v1alpha1.RedisInstance, *corev1.Secret) {
	instance := &v1alpha1.RedisInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.RedisInstanceSpec{
		Mode: v1alpha1.ModeExternal,
		External: &v1alpha1.ExternalServer{
			Host: host, TLS: v1alpha1.ExternalTLS{Mode: v1alpha1.TLSDisabled}, AdminCredentials: v1alpha1.AdminCredentials{SecretName: name + "-admin"},
		},
	}}
	return instance, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-admin", Labels: map[string]string{redisinstance.LabelCredentials: "true"}},
		StringData: map[string]string{"username": "admin", "password": password},
	}
}

func TestServersThatDoNotAnswerDelayNoOther(t *testing.T) {
	server := redistest.Start(t, nil)
	asked := make(chan struct{}, 100)
	startOperatorWith(t, &redisadmin.Options{Timeout: time.Hour, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if !strings.HasPrefix(address, "hung") {
			return (&net.Dialer{}).DialContext(ctx, network, server.Addr())
		}
		asked <- struct{}{}
		<-t.Context().Done()
		return nil, errors.New("the test is over")
	}})
	namespace := environment.Namespace(t, nil)
	var hung []*v1alpha1.RedisInstance
	for _, name := range []string{"hung-a", "hung-b"} {
		instance, secret := external(namespace, name, name+".example.com", "x")
		environment.Create(t, secret, instance)
		hung = append(hung, instance)
		<-asked
	}
	instance, secret := external(namespace, "good", "good.example.com", server.AdminPassword())
	environment.Create(t, secret, instance)
	await(t, instance, &v1alpha1.RedisInstanceList{}, "ready", func(seen *v1alpha1.RedisInstance) bool {
		return meta.IsStatusConditionTrue(seen.Status.Conditions, v1alpha1.ConditionReady)
	})
	for _, other := range hung {
		environment.Get(t, other)
		if len(other.Status.Conditions) > 0 {
			t.Errorf("it came after the attempt at %s was given up", other.Name)
		}
	}
}

func TestRedisInARunningOperator(t *testing.T) {
	server := redistest.Start(t, nil)
	startOperator(t, server.Addr())
	namespace := environment.Namespace(t, nil)
	lns := lockNamespace(namespace, "billing", "locks")
	environment.Create(t, lns)
	awaitReason(t, lns, v1alpha1.ReasonInstanceNotFound)

	instance, admin := external(namespace, "locks", "redis.example.com", server.AdminPassword())
	environment.Create(t, instance, admin)
	awaitReason(t, lns, v1alpha1.ReasonReady)
	environment.Get(t, lns)
	await(t, instance, &v1alpha1.RedisInstanceList{}, "counting the LockNamespace", func(seen *v1alpha1.RedisInstance) bool { return seen.Status.LockNamespaces == 1 })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "billing-lock"}}
	environment.Get(t, secret)
	tenant := server.Client(t, string(secret.Data["username"]), string(secret.Data["password"]))
	if err := tenant.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}

	// The label of a namespace decides, and its change is noticed.
	update(t, instance, func() {
		instance.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{
			From: v1alpha1.NamespacesSelector, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"locks": "yes"}},
		}
	})
	awaitReason(t, lns, v1alpha1.ReasonNotAllowedByInstance)
	labelled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	update(t, labelled, func() { labelled.Labels["locks"] = "yes" })
	awaitReason(t, lns, v1alpha1.ReasonReady)

	if err := environment.Admin.Delete(t.Context(), lns); err != nil {
		t.Fatal(err)
	}
	await(t, instance, &v1alpha1.RedisInstanceList{}, "counting none", func(seen *v1alpha1.RedisInstance) bool { return seen.Status.LockNamespaces == 0 })
	if user := server.Admin(t).Do(t.Context(), "ACL", "GETUSER", lns.Status.Username).Val(); user != nil {
		t.Errorf("the user of the deleted LockNamespace is still there: %v", user)
	}
}

// update changes an object that the operator may write at the same time.
func update(t *testing.T, object client.Object, change func()) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		environment.Get(t, object)
		change()
		return environment.Admin.Update(t.Context(), object)
	})
	if err != nil {
		t.Fatal(err)
	}
}
