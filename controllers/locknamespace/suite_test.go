// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/controllertest"
	"github.com/lockstead/lockstead/controllers/locknamespace"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/binding"
	lockclock "github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

var environment *controllertest.Environment

func TestMain(m *testing.M) { os.Exit(controllertest.Run(m, &environment)) }

// bench is an operator with the rights of the generated role, whose controllers run when the test says so.
type bench struct {
	t          *testing.T
	ctx        context.Context
	namespace  string
	controller *locknamespace.Controller
	instances  *redisinstance.Controller
	writes     *controllertest.Writes
	recorder   *events.FakeRecorder
	clock      *clocktesting.FakeClock
	crash      *crash
	// address is where the Redis server is; empty is nowhere.
	address string
	// told is everything that people could read: events, logs and statuses.
	told strings.Builder
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, namespace: environment.Namespace(t, nil), recorder: events.NewFakeRecorder(100), clock: clocktesting.NewFakeClock(time.Now())}
	b.ctx = log.IntoContext(t.Context(), funcr.New(func(prefix, args string) { b.told.WriteString(prefix + args) }, funcr.Options{Verbosity: 9}))
	b.restart(types.NamespacedName{})
	return b
}

// restart starts another operator, which nothing ends, with a default instance or an empty name.
func (b *bench) restart(defaultInstance types.NamespacedName) {
	connector := redisadmin.NewConnector(&redisadmin.Options{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if b.address == "" {
			return nil, errors.New("nobody is there")
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, b.address)
		return &crashingConn{Conn: conn, crash: b.crash}, err
	}})
	manager, writes := controllertest.CountWrites(environment.Manager)
	b.writes, b.crash = writes, &crash{}
	writes.Fail(func(string) error { return b.crash.point() })
	b.instances = redisinstance.New(redisinstance.Config{
		Client: manager, Reader: manager, Connector: connector, Recorder: events.NewFakeRecorder(100), Clock: b.clock, LockClock: lockclock.Monotonic(),
	})
	b.controller = locknamespace.New(locknamespace.Config{
		Client: manager, Reader: manager, Tenants: redisinstance.NewTenants(manager, manager, connector),
		Recorder: b.recorder, Clock: b.clock, DefaultInstance: defaultInstance,
	})
}

// application is a LockNamespace.
type application struct {
	*bench
	object *v1alpha1.LockNamespace
}

// application creates a LockNamespace in a namespace.
func (b *bench) application(namespace, name string, change ...func(*v1alpha1.LockNamespaceSpec)) *application {
	b.t.Helper()
	a := &application{bench: b, object: &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}}
	for _, f := range change {
		f(&a.object.Spec)
	}
	environment.Create(b.t, a.object)
	return a
}

// try runs the controller once and reads what it made of the object.
func (a *application) try() (reconcile.Result, error) {
	a.t.Helper()
	environment.Get(a.t, a.object)
	result, err := a.controller.Reconcile(a.ctx, a.object.DeepCopy())
	if err != nil {
		a.told.WriteString(err.Error())
	}
	environment.Get(a.t, a.object)
	text, marshalErr := json.Marshal(a.object)
	if marshalErr != nil {
		a.t.Fatal(marshalErr)
	}
	a.told.Write(text)
	return result, err
}

func (a *application) reconcile() reconcile.Result {
	a.t.Helper()
	result, err := a.try()
	if err != nil {
		a.t.Fatal(err)
	}
	return result
}

func (a *application) wantCondition(kind string, status metav1.ConditionStatus, reason string) string {
	a.t.Helper()
	condition := meta.FindStatusCondition(a.object.Status.Conditions, kind)
	if condition == nil || condition.Status != status || condition.Reason != reason || condition.ObservedGeneration != a.object.Generation {
		a.t.Fatalf("condition %s is %+v, want %s %s", kind, condition, status, reason)
	}
	return condition.Message
}

func (a *application) wantReady() {
	a.t.Helper()
	a.wantCondition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	a.wantCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	a.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// wantRefused wants Accepted to be false, and returns what it says.
func (a *application) wantRefused(reason string) string {
	a.t.Helper()
	a.reconcile()
	a.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
	a.wantCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted)
	return a.wantCondition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, reason)
}

// wantUnprogrammed wants Programmed to be false, and returns what it says.
func (a *application) wantUnprogrammed(reason string) string {
	a.t.Helper()
	a.wantCondition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	a.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
	return a.wantCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, reason)
}

func (a *application) wantNoWrites() {
	a.t.Helper()
	a.writes.Reset()
	a.reconcile()
	if sent := a.writes.Sent(); len(sent) > 0 {
		a.t.Errorf("a second reconciliation sent %v", sent)
	}
}

// exists reads an object and reports whether there is one.
func (a *application) exists(object client.Object, name string) bool {
	a.t.Helper()
	err := environment.Admin.Get(a.t.Context(), types.NamespacedName{Namespace: a.object.Namespace, Name: name}, object)
	if err != nil && !apierrors.IsNotFound(err) {
		a.t.Fatal(err)
	}
	return err == nil
}

// wantNothingMade wants neither a Secret nor rights.
func (a *application) wantNothingMade() {
	a.t.Helper()
	name := "lockstead-" + a.object.Name
	if a.exists(&corev1.Secret{}, a.object.Name+"-lock") || a.exists(&rbacv1.Role{}, name) || a.exists(&rbacv1.RoleBinding{}, name) {
		a.t.Error("something half-made is there")
	}
	if a.object.Status.Backend != "" || a.object.Status.Binding != nil || a.object.Status.InstanceRef != nil {
		a.t.Errorf("something is recorded: %+v", a.object.Status)
	}
}

func (a *application) secret() *corev1.Secret {
	a.t.Helper()
	secret := &corev1.Secret{}
	if !a.exists(secret, a.object.Status.Binding.Name) {
		a.t.Fatal("the Secret is missing")
	}
	return secret
}

// binding is what the library would read from the mounted Secret.
func (a *application) binding() *binding.Binding {
	a.t.Helper()
	secret := a.secret()
	b, err := binding.Parse(secret.Data)
	if err != nil {
		a.t.Fatal(err)
	}
	if want := corev1.SecretType(b.Type.SecretType()); secret.Type != want || !metav1.IsControlledBy(secret, a.object) {
		a.t.Errorf("the Secret has type %s, want %s, and owners %v", secret.Type, want, secret.OwnerReferences)
	}
	return b
}

// update changes an object as its owner would.
func update[T client.Object](t *testing.T, object T, change func(T)) {
	t.Helper()
	environment.Get(t, object)
	change(object)
	if err := environment.Admin.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, object client.Object) {
	t.Helper()
	if err := environment.Admin.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// events are those since the last call.
func (b *bench) events() []string {
	var got []string
	for {
		select {
		case event := <-b.recorder.Events:
			b.told.WriteString(event)
			got = append(got, event)
		default:
			return got
		}
	}
}

func on(instance *v1alpha1.RedisInstance) func(*v1alpha1.LockNamespaceSpec) {
	return func(spec *v1alpha1.LockNamespaceSpec) {
		spec.InstanceRef = &v1alpha1.InstanceReference{Namespace: instance.Namespace, Name: instance.Name}
	}
}

// instance creates a RedisInstance in the bench's namespace.
func (b *bench) instance(change ...func(*v1alpha1.RedisInstanceSpec)) *v1alpha1.RedisInstance {
	b.t.Helper()
	instance := &v1alpha1.RedisInstance{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "locks"}, Spec: v1alpha1.RedisInstanceSpec{
		Mode: v1alpha1.ModeExternal, AllowedNamespaces: v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesAll},
		External: &v1alpha1.ExternalServer{
			Host: "redis.example.com", TLS: v1alpha1.ExternalTLS{Mode: v1alpha1.TLSDisabled}, AdminCredentials: v1alpha1.AdminCredentials{SecretName: "admin"},
		},
	}}
	for _, f := range change {
		f(&instance.Spec)
	}
	environment.Create(b.t, instance)
	return instance
}

// redis starts a server and a RedisInstance for it, and examines it.
func (b *bench) redis(change ...func(*v1alpha1.RedisInstanceSpec)) (*v1alpha1.RedisInstance, *redistest.Server) {
	b.t.Helper()
	server := redistest.Start(b.t, nil)
	b.address = server.Addr()
	environment.Create(b.t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "admin", Labels: map[string]string{redisinstance.LabelCredentials: "true"}},
		StringData: map[string]string{"username": "admin", "password": server.AdminPassword()},
	})
	instance := b.instance(change...)
	b.examine(instance)
	return instance, server
}

// examine runs the controller of RedisInstances once.
func (b *bench) examine(instance *v1alpha1.RedisInstance) {
	b.t.Helper()
	if _, err := b.instances.Reconcile(b.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(instance)}); err != nil {
		b.t.Fatal(err)
	}
	environment.Get(b.t, instance)
}
