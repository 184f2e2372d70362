// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func TestManagedServerFromNothingToReady(t *testing.T) {
	b := newBench(t, managed())
	b.reconcile()
	if message := b.wantUnavailable(v1alpha1.ReasonPodNotReady); !strings.Contains(message, "locks-redis-0") {
		t.Errorf("message %q does not name the pod", message)
	}
	b.wantCondition(v1alpha1.ConditionLockSafe, metav1.ConditionUnknown, v1alpha1.ReasonUnverified)
	b.wantNoWrites()
	for _, object := range []metav1.Object{
		b.get(&appsv1.StatefulSet{}, "locks-redis"), b.get(&corev1.Service{}, "locks-redis"), b.get(&corev1.ConfigMap{}, "locks-redis-config"),
		b.getSecret("locks-redis-admin"), b.getSecret("locks-redis-probe"), b.getSecret("locks-redis-acl"),
	} {
		if !metav1.IsControlledBy(object, b.instance) {
			t.Errorf("%T %s does not belong to the RedisInstance", object, object.GetName())
		}
	}

	server := b.startPod()
	b.reconcile()
	b.wantReady()
	status := b.instance.Status
	if status.Epoch == 0 || status.RunID == "" || status.Server.Engine == "" || status.Server.Version == "" || status.Endpoint.Host != "locks-redis."+b.namespace+".svc" {
		t.Errorf("status is %+v", status)
	}
	size := appendOnlySize(t, server)
	b.wantNoWrites()
	if again := appendOnlySize(t, server); again != size {
		t.Errorf("a second reconciliation wrote %d bytes to the server", again-size)
	}
	events := b.events()
	for _, want := range []string{"Normal Available", "Warning PodNotReady"} {
		if !slices.ContainsFunc(events, func(event string) bool { return strings.HasPrefix(event, want) }) {
			t.Errorf("events %q do not contain %q", events, want)
		}
	}
	b.reconcile()
	if events := b.events(); len(events) > 0 {
		t.Errorf("events without a change: %q", events)
	}
	for _, name := range []string{"admin", "probe"} {
		if password := string(b.getSecret("locks-redis-" + name).Data["password"]); password == "" || strings.Contains(b.told.String(), password) {
			t.Errorf("the password of %s is empty or was told", name)
		}
	}
}

func (b *bench) get(object client.Object, name string) client.Object {
	b.t.Helper()
	object.SetNamespace(b.namespace)
	object.SetName(name)
	environment.Get(b.t, object)
	return object
}

func appendOnlySize(t *testing.T, server *redistest.Server) int {
	t.Helper()
	text, err := server.Admin(t).Info(t.Context(), "persistence").Result()
	if err != nil {
		t.Fatal(err)
	}
	var size int
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "aof_current_size:"); ok {
			if _, err := fmt.Sscan(value, &size); err != nil {
				t.Fatal(err)
			}
		}
	}
	return size
}

func TestTwoTenantsOfAManagedServer(t *testing.T) {
	b := newBench(t, managed())
	b.reconcile()
	server := b.startPod()
	b.reconcile()
	billing, orders := b.application("billing"), b.application("orders")
	for _, a := range []*application{billing, orders} {
		a.program()
		if got := a.acquire(server, "key"); got != fmt.Sprint(b.instance.Status.Epoch) {
			t.Errorf("%s: acquire: %s", a.namespace.Name, got)
		}
	}
	b.reconcile()
	b.wantReady()
	if b.instance.Status.LockNamespaces != 2 {
		t.Errorf("status counts %d LockNamespaces", b.instance.Status.LockNamespaces)
	}
	b.writes.Reset()
	billing.program()
	orders.program()
	if sent := b.writes.Sent(); len(sent) > 0 {
		t.Errorf("programming again sent %v", sent)
	}

	// One with the other's keys and channel.
	connection, prefix := orders.redis(server), billing.tenant().Prefix
	for name, err := range map[string]error{
		"get":       connection.Get(t.Context(), redisproto.LockKey(prefix, "key")).Err(),
		"delete":    connection.Del(t.Context(), redisproto.LockKey(prefix, "key")).Err(),
		"publish":   connection.Publish(t.Context(), redisproto.Channel(prefix, "key"), "").Err(),
		"epoch":     connection.Get(t.Context(), redisproto.EpochKey(prefix)).Err(),
		"own epoch": connection.Set(t.Context(), redisproto.EpochKey(orders.tenant().Prefix), "1 1 1", 0).Err(),
		"acquire":   connection.FCall(t.Context(), redisproto.FunctionAcquire, []string{redisproto.LockKey(prefix, "x"), redisproto.SequenceKey(prefix)}, strings.Repeat("a", 32), 1000, "o").Err(),
		"arm":       connection.FCall(t.Context(), redisproto.FunctionArm, []string{redisproto.ArmKey(prefix)}, prefix, 1).Err(),
		"arm own":   connection.FCall(t.Context(), redisproto.FunctionArm, []string{redisproto.LockKey(orders.tenant().Prefix, "x")}, orders.tenant().Prefix, 1).Err(),
		"keys":      connection.Keys(t.Context(), "*").Err(),
		"users":     connection.Do(t.Context(), "ACL", "USERS").Err(),
	} {
		if err == nil || err == redis.Nil { //nolint:errorlint // It is never wrapped.
			t.Errorf("%s of another tenant was not refused: %v", name, err)
		}
	}

	// The pod boots with both while the operator is away.
	boot := redistest.Start(t, &redistest.Options{Users: bootUsers(t, string(b.getSecret("locks-redis-acl").Data["users.acl"]))})
	for _, a := range []*application{billing, orders} {
		if err := a.redis(boot).Ping(t.Context()).Err(); err != nil {
			t.Errorf("%s cannot log in to a server that booted from the file: %v", a.namespace.Name, err)
		}
		if strings.Contains(b.told.String(), a.password) {
			t.Errorf("the password of %s was told", a.namespace.Name)
		}
	}
}

// bootUsers reads an ACL file, all but the default user.
func bootUsers(t *testing.T, text string) []redisproto.User {
	t.Helper()
	if !strings.HasPrefix(text, "user default off ~* &* +@all\n") {
		t.Errorf("the file does not close the default user first:\n%s", text)
	}
	var users []redisproto.User
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if words[1] == "default" {
			continue
		}
		users = append(users, redisproto.User{Name: words[1], PasswordHashes: []string{words[3]}, Rules: words[4:]})
	}
	return users
}

func TestManagedServerThatLostItsUsersGetsThemBack(t *testing.T) {
	b := newBench(t, managed())
	b.reconcile()
	server := b.startPod()
	b.reconcile()
	a := b.application("billing")
	a.program()
	if got := a.acquire(server, "key"); got == "held" {
		t.Fatal(got)
	}
	server.Kill(t)
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonUnreachable)
	server.Run(t) // Its ACL file has the system's users alone, as one that the kubelet had not refreshed yet.
	epoch := b.instance.Status.Epoch
	b.reconcile()
	b.wantReady()
	if got := a.acquire(server, "key"); got != "held" {
		t.Errorf("the lock is not held after a restart: %s", got)
	}
	if got := a.acquire(server, "other"); got != fmt.Sprint(epoch) || b.instance.Status.Epoch != epoch {
		t.Errorf("after a restart: acquire %s, epoch %d, want %d", got, b.instance.Status.Epoch, epoch)
	}
	if events := b.events(); slices.ContainsFunc(events, func(event string) bool { return strings.Contains(event, "DataMayBeLost") }) {
		t.Errorf("a restart was taken for a loss: %q", events)
	}
}

func TestUsersOfLockNamespacesThatAreGoneAreSwept(t *testing.T) {
	b := newBench(t, managed())
	b.reconcile()
	server := b.startPod()
	b.reconcile()
	gone, stays, revoked := b.application("gone"), b.application("stays"), b.application("revoked")
	for _, a := range []*application{gone, stays, revoked} {
		a.program()
	}
	// One that is being bound right now, whose status a cache may not have yet.
	fresh := b.application("fresh")
	fresh.program()
	fresh.setStatus(func(status *v1alpha1.LockNamespaceStatus) { *status = v1alpha1.LockNamespaceStatus{} })
	admin := server.Admin(t)
	for _, foreign := range [][]any{{"ACL", "SETUSER", "lk-people"}, {"ACL", "SETUSER", "other"}} {
		if err := admin.Do(t.Context(), foreign...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	connection := gone.redis(server)
	if err := connection.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	username := gone.tenant().Username
	if err := environment.Admin.Delete(t.Context(), gone.namespace); err != nil {
		t.Fatal(err)
	}
	if err := b.tenants.Revoke(t.Context(), b.instance, revoked.tenant().Username); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	users, err := admin.Do(t.Context(), "ACL", "USERS").StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		username: false, revoked.tenant().Username: false, stays.tenant().Username: true,
		redisadmin.TenantUser(string(fresh.namespace.UID)): true, "lk-people": true, "other": true,
	} {
		if slices.Contains(users, name) != want {
			t.Errorf("user %s is there: %t", name, !want)
		}
	}
	if err := connection.Ping(t.Context()).Err(); err == nil {
		t.Error("a connection of a LockNamespace that is gone still works")
	}
	file := string(b.getSecret("locks-redis-acl").Data["users.acl"])
	if strings.Contains(file, username) || strings.Contains(file, revoked.tenant().Username) || !strings.Contains(file, stays.tenant().Username) {
		t.Errorf("the boot file is\n%s", file)
	}
	b.wantNoWrites()
}

func TestForeignObjectsAreLeftAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		object func(namespace string) (create, read client.Object)
	}{
		"a Secret": {v1alpha1.ReasonSecretConflict, func(namespace string) (a, b client.Object) {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "locks-redis-admin"}, StringData: map[string]string{"a": "b"}}, &corev1.Secret{}
		}},
		"a ConfigMap": {v1alpha1.ReasonObjectConflict, func(namespace string) (a, b client.Object) {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "locks-redis-config"}, Data: map[string]string{"a": "b"}}, &corev1.ConfigMap{}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, managed())
			object, after := tc.object(b.namespace)
			environment.Create(t, object)
			version := object.GetResourceVersion()
			b.reconcile()
			if message := b.wantUnavailable(tc.reason); !strings.Contains(message, object.GetName()) {
				t.Errorf("message %q does not name the object", message)
			}
			b.get(after, object.GetName())
			if after.GetResourceVersion() != version {
				t.Error("the object was changed")
			}
			err := environment.Admin.Get(t.Context(), named(b.namespace, "locks-redis"), &appsv1.StatefulSet{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("a server was made all the same: %v", err)
			}
		})
	}
}

func TestAChangeOfTheSpecReachesThePod(t *testing.T) {
	b := newBench(t, managed())
	b.reconcile()
	before := b.get(&appsv1.StatefulSet{}, "locks-redis").(*appsv1.StatefulSet)
	b.instance.Spec.Managed.Image, b.instance.Spec.Managed.Version = "example.com/redis:1", ""
	if err := environment.Admin.Update(t.Context(), b.instance); err != nil {
		t.Fatal(err)
	}
	// And a change by hand is undone.
	before.Spec.Template.Spec.Containers[0].Command = []string{"redis-server", "--appendonly", "no"}
	if err := environment.Admin.Update(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	after := b.get(&appsv1.StatefulSet{}, "locks-redis").(*appsv1.StatefulSet)
	container := after.Spec.Template.Spec.Containers[0]
	if container.Image != "example.com/redis:1" || len(container.Command) != 2 {
		t.Errorf("the container has image %s and command %q", container.Image, container.Command)
	}
	b.wantNoWrites()
}
