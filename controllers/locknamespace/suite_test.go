// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/controllertest"
	"github.com/lockstead/lockstead/controllers/locknamespace"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

var environment *controllertest.Environment

func TestMain(m *testing.M) { os.Exit(controllertest.Run(m, &environment)) }

// bench has what a test of the LockNamespaces of one namespace needs. Its controllers have the manager's rights.
type bench struct {
	t          *testing.T
	namespace  string
	controller *locknamespace.Controller
	instances  *redisinstance.Controller
	writes     *controllertest.Writes
	recorder   *events.FakeRecorder
	// server is where every connection to a Redis server goes.
	server *redistest.Server
	// told is all that was shown to people, for a search for passwords.
	told strings.Builder
}

func newBench(t *testing.T, namespace string, defaultInstance types.NamespacedName) *bench {
	t.Helper()
	b := &bench{t: t, namespace: namespace, recorder: events.NewFakeRecorder(1000)}
	connector := redisadmin.NewConnector(&redisadmin.Options{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, b.server.Addr())
	}})
	manager, writes := controllertest.CountWrites(environment.Manager)
	clock := clocktesting.NewFakeClock(time.Now())
	b.writes = writes
	b.controller = locknamespace.New(locknamespace.Config{
		Client: manager, Reader: manager, Tenants: redisinstance.NewTenants(manager, manager, connector),
		Recorder: b.recorder, Clock: clock, DefaultInstance: defaultInstance,
	})
	b.instances = redisinstance.NewController(manager, manager, connector, b.recorder, clock)
	return b
}

func leaseBench(t *testing.T) *bench {
	return newBench(t, environment.Namespace(t, nil), types.NamespacedName{})
}

// instance creates an external RedisInstance "locks" in the bench's namespace, with a running server, and makes it ready.
func (b *bench) instance(change func(*v1alpha1.RedisInstanceSpec)) *v1alpha1.RedisInstance {
	b.t.Helper()
	if b.server == nil {
		b.server = redistest.Start(b.t, nil)
	}
	admin := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "admin"},
		StringData: map[string]string{"username": "admin", "password": b.server.AdminPassword()},
	}
	if err := client.IgnoreAlreadyExists(environment.Admin.Create(b.t.Context(), admin)); err != nil {
		b.t.Fatal(err)
	}
	instance := &v1alpha1.RedisInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "locks"},
		Spec: v1alpha1.RedisInstanceSpec{Mode: v1alpha1.ModeExternal, External: &v1alpha1.ExternalServer{
			Host: "redis.example.com", TLS: v1alpha1.ExternalTLS{Mode: v1alpha1.TLSDisabled}, AdminCredentials: v1alpha1.AdminCredentials{SecretName: "admin"},
		}},
	}
	if change != nil {
		change(&instance.Spec)
	}
	environment.Create(b.t, instance)
	b.reconcileInstance(instance)
	if !meta.IsStatusConditionTrue(instance.Status.Conditions, v1alpha1.ConditionReady) {
		b.t.Fatalf("the RedisInstance is not ready: %+v", instance.Status.Conditions)
	}
	return instance
}

func (b *bench) reconcileInstance(instance *v1alpha1.RedisInstance) {
	b.t.Helper()
	if _, err := b.instances.Reconcile(b.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(instance)}); err != nil {
		b.t.Fatal(err)
	}
	environment.Get(b.t, instance)
}

func (b *bench) create(name string, change func(*v1alpha1.LockNamespace)) *v1alpha1.LockNamespace {
	b.t.Helper()
	// The API server sets the defaults of the durations only where they are left out, which their Go type cannot.
	lns := &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	lns.Spec.TTL = v1alpha1.TTL{Default: metav1.Duration{Duration: 30 * time.Second}, Max: metav1.Duration{Duration: time.Hour}}
	if change != nil {
		change(lns)
	}
	environment.Create(b.t, lns)
	return lns
}

// onLocks asks for RedisInstance "locks" in the same namespace.
func onLocks(lns *v1alpha1.LockNamespace) {
	lns.Spec.InstanceRef = &v1alpha1.InstanceReference{Name: "locks"}
}

// attempt reconciles once, as the manager would: with the object that was read before.
func (b *bench) attempt(lns *v1alpha1.LockNamespace) (reconcile.Result, error) {
	b.t.Helper()
	environment.Get(b.t, lns)
	result, err := b.controller.Reconcile(b.t.Context(), lns.DeepCopy())
	environment.Get(b.t, lns)
	text, marshalErr := json.Marshal(lns)
	if marshalErr != nil {
		b.t.Fatal(marshalErr)
	}
	b.told.Write(text)
	if err != nil {
		b.told.WriteString(err.Error())
	}
	return result, err
}

func (b *bench) reconcile(lns *v1alpha1.LockNamespace) reconcile.Result {
	b.t.Helper()
	result, err := b.attempt(lns)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// ready reconciles until nothing is left to do, and checks that a further time sends no write.
func (b *bench) ready(lns *v1alpha1.LockNamespace) {
	b.t.Helper()
	b.reconcile(lns)
	b.want(lns, v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	b.want(lns, v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	b.want(lns, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	b.wantNoWrites(lns)
}

func (b *bench) wantNoWrites(lns *v1alpha1.LockNamespace) {
	b.t.Helper()
	b.events()
	b.writes.Reset()
	b.reconcile(lns)
	if sent := b.writes.Sent(); len(sent) > 0 {
		b.t.Errorf("a further reconciliation sent %v", sent)
	}
	if events := b.events(); len(events) > 0 {
		b.t.Errorf("a further reconciliation told %v", events)
	}
}

func (b *bench) want(lns *v1alpha1.LockNamespace, kind string, status metav1.ConditionStatus, reason string) {
	b.t.Helper()
	condition := meta.FindStatusCondition(lns.Status.Conditions, kind)
	if condition == nil || condition.Status != status || condition.Reason != reason || condition.ObservedGeneration != lns.Generation {
		b.t.Fatalf("condition %s is %+v, want %s %s", kind, condition, status, reason)
	}
}

// wantRefused wants the reason in Accepted and Ready, and no Secret.
func (b *bench) wantRefused(lns *v1alpha1.LockNamespace, reason string) {
	b.t.Helper()
	b.want(lns, v1alpha1.ConditionAccepted, metav1.ConditionFalse, reason)
	b.want(lns, v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted)
	b.want(lns, v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
	b.wantNoWrites(lns)
}

func (b *bench) wantNotProgrammed(lns *v1alpha1.LockNamespace, reason string) {
	b.t.Helper()
	b.want(lns, v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	b.want(lns, v1alpha1.ConditionProgrammed, metav1.ConditionFalse, reason)
	b.want(lns, v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
}

func (b *bench) secret(lns *v1alpha1.LockNamespace) *corev1.Secret {
	b.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: lns.Namespace, Name: lns.Name + "-lock"}}
	environment.Get(b.t, secret)
	return secret
}

func (b *bench) wantNoSecret(lns *v1alpha1.LockNamespace) {
	b.t.Helper()
	var list corev1.SecretList
	if err := environment.Admin.List(b.t.Context(), &list, client.InNamespace(lns.Namespace)); err != nil {
		b.t.Fatal(err)
	}
	for _, secret := range list.Items {
		if metav1.IsControlledBy(&secret, lns) {
			b.t.Errorf("Secret %s was written", secret.Name)
		}
	}
}

// binding is what an application reads.
func (b *bench) binding(lns *v1alpha1.LockNamespace) *binding.Binding {
	b.t.Helper()
	got, err := binding.Parse(b.secret(lns).Data)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// client logs in to the server as an application does.
func (b *bench) client(lns *v1alpha1.LockNamespace) *redis.Client {
	b.t.Helper()
	got := b.binding(lns)
	return b.server.Client(b.t, got.Redis.Username, got.Redis.Password)
}

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
