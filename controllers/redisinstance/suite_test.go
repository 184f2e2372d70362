// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
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
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	lockclock "github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

var environment *controllertest.Environment

func TestMain(m *testing.M) { os.Exit(controllertest.Run(m, &environment)) }

// bench has what a test of one RedisInstance needs.
type bench struct {
	t          *testing.T
	namespace  string
	controller *redisinstance.Controller
	tenants    *redisinstance.Tenants
	writes     *controllertest.Writes
	clock      *clocktesting.FakeClock
	lockClock  *processClock
	recorder   *events.FakeRecorder
	registry   *prometheus.Registry
	instance   *v1alpha1.RedisInstance
	// address is where the server is that every connection goes to; empty is nowhere.
	address string
	// dialer is used instead of address.
	dialer func(ctx context.Context, network, address string) (net.Conn, error)
	// told is everything that was shown to people: events and objects, for a search for passwords.
	told strings.Builder
}

func newBench(t *testing.T, spec v1alpha1.RedisInstanceSpec) *bench {
	t.Helper()
	b := &bench{
		t: t, namespace: environment.Namespace(t, nil), clock: clocktesting.NewFakeClock(time.Now()), recorder: events.NewFakeRecorder(100),
		lockClock: &processClock{},
	}
	manager, writes := controllertest.CountWrites(environment.Manager)
	b.writes = writes
	b.startOperator(manager)
	b.instance = &v1alpha1.RedisInstance{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "locks"}, Spec: spec}
	environment.Create(t, b.instance)
	return b
}

// startOperator makes the controllers anew, as a process that has just become the leader does.
func (b *bench) startOperator(c client.Client) {
	connector := redisadmin.NewConnector(&redisadmin.Options{Dial: b.dial})
	b.registry = prometheus.NewRegistry()
	b.controller = redisinstance.New(redisinstance.Config{
		Client: c, Reader: c, Connector: connector, Recorder: b.recorder, Clock: b.clock, LockClock: b.lockClock, Metrics: b.registry,
		Operator: redisinstance.Pods{Namespace: "operators", Labels: map[string]string{"app": "operator"}},
	})
	b.tenants = redisinstance.NewTenants(c, c, connector)
}

// processClock is the clock of the operator's process, which the test moves.
type processClock struct {
	lockclock.Clock
	at lockclock.Instant
}

func (c *processClock) Now() lockclock.Instant { return c.at }

// pass lets time pass on all clocks.
func (b *bench) pass(d time.Duration) {
	b.clock.Step(d)
	b.lockClock.at = b.lockClock.at.Add(d)
}

func (b *bench) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if b.dialer != nil {
		return b.dialer(ctx, network, address)
	}
	if b.address == "" {
		return nil, errors.New("nobody is there")
	}
	return (&net.Dialer{}).DialContext(ctx, network, b.address)
}

func managed() v1alpha1.RedisInstanceSpec {
	return v1alpha1.RedisInstanceSpec{Mode: v1alpha1.ModeManaged, Managed: &v1alpha1.ManagedServer{Engine: v1alpha1.EngineRedis, Version: "7.0"}}
}

func external() v1alpha1.RedisInstanceSpec {
	return v1alpha1.RedisInstanceSpec{Mode: v1alpha1.ModeExternal, External: &v1alpha1.ExternalServer{
		Host: "redis.example.com", TLS: v1alpha1.ExternalTLS{Mode: v1alpha1.TLSDisabled}, AdminCredentials: v1alpha1.AdminCredentials{SecretName: "admin"},
	}}
}

// externalBench is one with a running external server.
func externalBench(t *testing.T, config ...string) (*bench, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t, &redistest.Options{Config: config})
	b := newBench(t, external())
	b.address = server.Addr()
	b.secret("admin", map[string]string{"username": "admin", "password": server.AdminPassword()})
	return b, server
}

func (b *bench) secret(name string, entries map[string]string) {
	b.t.Helper()
	labels := map[string]string{redisinstance.LabelCredentials: "true"}
	environment.Create(b.t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name, Labels: labels}, StringData: entries})
}

func (b *bench) getSecret(name string) *corev1.Secret {
	b.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	environment.Get(b.t, secret)
	return secret
}

// reconcile runs the controller once and reads what it made of the object.
func (b *bench) reconcile() reconcile.Result {
	b.t.Helper()
	result, err := b.controller.Reconcile(b.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.instance)})
	if err != nil {
		b.t.Fatal(err)
	}
	environment.Get(b.t, b.instance)
	text, err := json.Marshal(b.instance)
	if err != nil {
		b.t.Fatal(err)
	}
	b.told.Write(text)
	return result
}

// wantNoWrites reconciles again and fails if that sent a write to the API server.
func (b *bench) wantNoWrites() {
	b.t.Helper()
	b.writes.Reset()
	b.reconcile()
	if sent := b.writes.Sent(); len(sent) > 0 {
		b.t.Errorf("a second reconciliation sent %v", sent)
	}
}

func (b *bench) wantCondition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	b.t.Helper()
	condition := meta.FindStatusCondition(b.instance.Status.Conditions, kind)
	if condition == nil {
		b.t.Fatalf("there is no condition %s in %+v", kind, b.instance.Status)
	}
	if condition.Status != status || condition.Reason != reason || condition.ObservedGeneration != b.instance.Generation {
		b.t.Fatalf("condition is %+v, want %s %s", condition, status, reason)
	}
	return *condition
}

func (b *bench) wantReady() {
	b.t.Helper()
	b.wantCondition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
	b.wantCondition(v1alpha1.ConditionLockSafe, metav1.ConditionTrue, v1alpha1.ReasonSafe)
	b.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// wantUnavailable wants Available and Ready to be false for one reason, and returns the message.
func (b *bench) wantUnavailable(reason string) string {
	b.t.Helper()
	b.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
	return b.wantCondition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, reason).Message
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

// startPod makes the managed server run: the pod is ready, and a real server has the users of the boot file's system.
func (b *bench) startPod(change ...func(*redistest.Options)) *redistest.Server {
	b.t.Helper()
	var users []redisproto.User
	for name, rules := range map[string][]string{"admin": redisproto.OperatorRules(), "probe": redisproto.ProbeRules()} {
		secret := b.getSecret("locks-redis-" + name)
		users = append(users, redisproto.User{
			Name: string(secret.Data["username"]), PasswordHashes: []string{redisproto.PasswordHash(string(secret.Data["password"]))}, Rules: rules,
		})
	}
	options := &redistest.Options{Users: users, Config: b.podConfig()}
	for _, change := range change {
		change(options)
	}
	server := redistest.Start(b.t, options)
	b.address = server.Addr()
	statefulSet := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "locks-redis"}}
	environment.Get(b.t, statefulSet)
	statefulSet.Status = appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1, ObservedGeneration: statefulSet.Generation}
	if err := environment.Admin.Status().Update(b.t.Context(), statefulSet); err != nil {
		b.t.Fatal(err)
	}
	return server
}

// podConfig is the configuration of the pod, without what belongs to the container.
func (b *bench) podConfig() []string {
	b.t.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "locks-redis-config"}}
	environment.Get(b.t, config)
	var lines []string
	for line := range strings.Lines(config.Data["redis.conf"]) {
		name, _, _ := strings.Cut(line, " ")
		if !slices.Contains([]string{"bind", "port", "aclfile", "dir", "daemonize", "logfile"}, name) && !strings.HasPrefix(name, "tls-") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// application is a LockNamespace that is bound to the RedisInstance, and its credentials.
type application struct {
	*bench
	namespace *v1alpha1.LockNamespace
	password  string
}

func (b *bench) application(name string, change ...func(*v1alpha1.LockNamespaceSpec)) *application {
	b.t.Helper()
	a := &application{bench: b, password: redisadmin.NewPassword(), namespace: &v1alpha1.LockNamespace{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name},
		Spec:       v1alpha1.LockNamespaceSpec{TTL: v1alpha1.TTL{Max: metav1.Duration{Duration: time.Minute}}},
	}}
	for _, f := range change {
		f(&a.namespace.Spec)
	}
	environment.Create(b.t, a.namespace)
	a.setStatus(func(status *v1alpha1.LockNamespaceStatus) {
		status.Backend = v1alpha1.BackendRedis
		status.InstanceRef = &v1alpha1.BoundInstance{Namespace: b.namespace, Name: b.instance.Name, UID: string(b.instance.UID)}
		status.Prefix = redisproto.Prefix("lk", b.namespace+"/"+name)
		status.Username = redisadmin.TenantUser(string(a.namespace.UID))
	})
	return a
}

func (a *application) setStatus(change func(*v1alpha1.LockNamespaceStatus)) {
	a.t.Helper()
	environment.Get(a.t, a.namespace)
	change(&a.namespace.Status)
	if err := environment.Admin.Status().Update(a.t.Context(), a.namespace); err != nil {
		a.t.Fatal(err)
	}
}

func (a *application) tenant() redisinstance.Tenant {
	status := a.namespace.Status
	return redisinstance.Tenant{
		Username: status.Username, Prefix: status.Prefix, Password: a.password, MaxTTL: time.Minute, Programmed: status.Binding != nil,
	}
}

// program does what the locknamespace controller does.
func (a *application) program() {
	a.t.Helper()
	grant, err := a.tenants.Program(a.t.Context(), a.instance, a.tenant())
	if err != nil {
		a.t.Fatal(err)
	}
	server := grant.Server
	if server.Host == "" || server.Port != 6379 || server.Username != a.tenant().Username || server.Password != a.password || server.TLS {
		a.t.Errorf("the endpoint is %s, access %s", server, server.Access)
	}
	if a.namespace.Status.Binding == nil {
		a.setStatus(func(status *v1alpha1.LockNamespaceStatus) {
			status.Binding = &v1alpha1.BindingReference{Name: a.namespace.Name + "-lock"}
		})
	}
}

// redis is a connection with the tenant's credentials.
func (a *application) redis(server *redistest.Server) *redis.Client {
	a.t.Helper()
	return server.Client(a.t, a.tenant().Username, a.password)
}

// acquire takes a lock with the tenant's credentials, and returns the epoch of its token, or "held", or the error.
func (a *application) acquire(server *redistest.Server, key string) string {
	a.t.Helper()
	prefix := a.tenant().Prefix
	id := fmt.Sprintf("%032x", time.Now().UnixNano())
	reply, err := a.redis(server).FCall(a.t.Context(), redisproto.FunctionAcquire,
		[]string{redisproto.LockKey(prefix, key), redisproto.SequenceKey(prefix)}, id, 60_000, "test").Slice()
	if err != nil {
		code, _, _ := strings.Cut(err.Error(), " ")
		return code
	}
	if reply[0] == int64(0) {
		return "held"
	}
	return fmt.Sprint(reply[1])
}

func named(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}
