// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package faulttest_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/locknamespace"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/lock/clock/clocktest"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// maxTTL is the longest TTL of every RedisInstance here, and so the length of a quarantine.
const maxTTL = time.Minute

// operator is one process of the operator.
type operator struct {
	faults      *faults
	instances   *redisinstance.Controller
	namespaces  *locknamespace.Controller
	recorder    *events.FakeRecorder
	unreachable bool // the connections of this process alone do not come through
}

// world is a Kubernetes namespace and a Redis server of its own, and the operator that looks after both.
type world struct {
	t         *testing.T
	ctx       context.Context
	namespace string
	server    *redistest.Server
	admin     *redis.Client
	operator  *operator
	clock     *clocktesting.FakeClock
	lockClock *clocktest.Hand
	// down: no connection of an operator reaches the server.
	down bool
	// pod: the server is that of a StatefulSet, and boots with the users of its Secret.
	pod bool
	// known are the names of RedisInstances that there were, which are looked at also when they are gone.
	known []string
	// instances and namespaces are what there is, as it was read last.
	instances  []v1alpha1.RedisInstance
	namespaces []v1alpha1.LockNamespace
	// orphans: something was deleted whose children nobody collects but the test.
	orphans bool
	// told is everything that people could read: events, logs, errors and statuses.
	told strings.Builder
	witness
}

// newWorld has a server without any data.
func newWorld(t *testing.T, server *redistest.Server, at time.Time) *world {
	t.Helper()
	w := &world{
		t: t, namespace: environment.Namespace(t, nil), server: server, admin: server.Admin(t), clock: clocktesting.NewFakeClock(at), lockClock: &clocktest.Hand{},
		witness: newWitness(),
	}
	w.ctx = log.IntoContext(t.Context(), funcr.New(func(prefix, args string) { w.told.WriteString(prefix + args) }, funcr.Options{Verbosity: 9}))
	w.wipe()
	w.restart()
	t.Cleanup(w.clear)
	return w
}

// wipe makes the server what a new one is.
func (w *world) wipe() {
	w.t.Helper()
	for _, command := range [][]any{
		{"FLUSHALL"}, {"FUNCTION", "FLUSH"}, {"SCRIPT", "FLUSH"}, {"CONFIG", "SET", "appendfsync", "always", "maxmemory-policy", "noeviction"},
	} {
		w.must(w.admin.Do(w.t.Context(), command...).Err())
	}
	w.forgetUsers()
}

// forgetUsers leaves the server the users that it boots with.
func (w *world) forgetUsers() {
	w.t.Helper()
	for name := range w.users() {
		if name == "default" {
			w.must(w.admin.Do(w.t.Context(), "ACL", "SETUSER", "default", "off").Err())
			continue
		}
		w.must(w.admin.Do(w.t.Context(), "ACL", "DELUSER", name).Err())
	}
}

// clear deletes what every operator of the cluster would list.
func (w *world) clear() {
	for _, object := range []client.Object{&v1alpha1.LockNamespace{}, &v1alpha1.RedisInstance{}} {
		if err := environment.Admin.DeleteAllOf(context.WithoutCancel(w.ctx), object, client.InNamespace(w.namespace)); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// restart starts a new process of the operator, which nothing disturbs, in place of the one that there was.
func (w *world) restart() { w.operator = w.newOperator(environment.Manager) }

func (w *world) newOperator(api client.WithWatch) *operator {
	o := &operator{faults: &faults{}, recorder: events.NewFakeRecorder(1000)}
	connector := redisadmin.NewConnector(&redisadmin.Options{Timeout: time.Minute, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if w.down || o.unreachable || o.faults.ended() {
			return nil, errors.New("nobody is there")
		}
		opened, err := (&net.Dialer{}).DialContext(ctx, network, w.server.Addr())
		return &conn{Conn: opened, faults: o.faults}, err
	}})
	manager := o.faults.client(api)
	o.instances = redisinstance.New(redisinstance.Config{
		Client: manager, Reader: manager, Connector: connector, Recorder: o.recorder, Clock: w.clock, LockClock: w.lockClock,
	})
	o.namespaces = locknamespace.New(locknamespace.Config{
		Client: manager, Reader: manager, Tenants: redisinstance.NewTenants(manager, manager, connector), Recorder: o.recorder, Clock: w.clock,
	})
	return o
}

// pass lets time pass on all clocks.
func (w *world) pass(d time.Duration) {
	w.clock.Step(d)
	w.lockClock.Advance(d)
}

// rounds is how many times everything is looked at until the world has to be at rest.
const rounds = 40

// settle lets the operator work until it is at rest: a look at everything sends no write, ends with no error, and nothing is in quarantine.
func (w *world) settle() {
	w.t.Helper()
	w.atRest = false
	var last []error
	for range rounds {
		w.surroundings()
		last = w.look()
		if w.operator.faults.ended() {
			w.restart()
			continue
		}
		w.observe()
		switch {
		case w.operator.faults.changed() > 0, len(last) > 0:
		case w.quarantined():
			w.pass(maxTTL/2 + time.Second)
		default:
			if !w.uninterrupted {
				w.atRest = true
				w.observe()
			}
			return
		}
	}
	w.t.Fatalf("the operator does not come to rest after %d looks; the last ended with %v", rounds, last)
}

// refresh reads what there is.
func (w *world) refresh() {
	w.t.Helper()
	var instances v1alpha1.RedisInstanceList
	w.list(&instances)
	var namespaces v1alpha1.LockNamespaceList
	w.list(&namespaces)
	w.instances, w.namespaces = instances.Items, namespaces.Items
	for _, instance := range w.instances {
		if !slices.Contains(w.known, instance.Name) {
			w.known = append(w.known, instance.Name)
		}
	}
}

// quarantined reports whether a RedisInstance waits for the end of a quarantine.
func (w *world) quarantined() bool {
	return !w.down && slices.ContainsFunc(w.instances, func(i v1alpha1.RedisInstance) bool { return i.Status.QuarantineUntil != nil })
}

// look is one look of the operator at everything.
func (w *world) look() []error {
	w.t.Helper()
	var failed []error
	note := func(err error) {
		if err != nil {
			failed = append(failed, err)
			w.told.WriteString(err.Error())
		}
	}
	w.refresh()
	for _, name := range w.known {
		_, err := w.operator.instances.Reconcile(w.ctx, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: name}})
		note(err)
	}
	for i := range w.namespaces {
		_, err := w.operator.namespaces.Reconcile(w.ctx, w.namespaces[i].DeepCopy())
		note(err)
	}
	for {
		select {
		case event := <-w.operator.recorder.Events:
			w.told.WriteString(event)
			continue
		default:
		}
		return failed
	}
}

// surroundings do what other parts of a cluster do: they run pods, and collect what belongs to nobody any more.
func (w *world) surroundings() {
	w.t.Helper()
	if w.orphans {
		w.collectGarbage()
	}
	set := &appsv1.StatefulSet{}
	if !w.pod || !w.get(set, "locks-redis") || set.Status.ReadyReplicas > 0 {
		return
	}
	w.boot()
	set.Status = appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1, ObservedGeneration: set.Generation}
	w.must(environment.Admin.Status().Update(w.t.Context(), set))
}

// boot gives the server the users of the file that a pod boots from.
func (w *world) boot() {
	w.t.Helper()
	w.forgetUsers()
	secret := &corev1.Secret{}
	if !w.get(secret, "locks-redis-acl") {
		w.t.Fatal("the pod has no users to boot from")
	}
	for line := range strings.Lines(string(secret.Data["users.acl"])) {
		command := []any{"ACL", "SETUSER"}
		for _, word := range strings.Fields(line)[1:] {
			command = append(command, word)
		}
		w.must(w.admin.Do(w.t.Context(), command...).Err())
	}
	file := &corev1.ConfigMap{}
	if !w.get(file, "locks-redis-config") {
		w.t.Fatal("the pod has no configuration")
	}
	for line := range strings.Lines(file.Data["redis.conf"]) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "" && !slices.Contains(ofTheContainer, name) {
			w.must(w.admin.ConfigSet(w.t.Context(), name, strings.Trim(value, `"`)).Err())
		}
	}
}

// ofTheContainer are the settings of a pod that say where it has its files and listens.
var ofTheContainer = []string{"bind", "protected-mode", "aclfile", "dir", "daemonize", "logfile", "port"}

// children are what the operator makes.
func children() []client.ObjectList {
	return []client.ObjectList{&corev1.SecretList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}}
}

// collectGarbage deletes the objects whose owner is gone, since an API server alone does not.
func (w *world) collectGarbage() {
	w.t.Helper()
	owners := map[types.UID]bool{}
	for _, list := range []client.ObjectList{&v1alpha1.RedisInstanceList{}, &v1alpha1.LockNamespaceList{}} {
		for _, object := range w.list(list) {
			owners[object.GetUID()] = true
		}
	}
	for _, list := range children() {
		for _, object := range w.list(list) {
			if owner := metav1.GetControllerOf(object); owner != nil && !owners[owner.UID] {
				w.must(client.IgnoreNotFound(environment.Admin.Delete(w.t.Context(), object)))
			}
		}
	}
}

// list reads the objects of a kind in the namespace.
func (w *world) list(list client.ObjectList) []client.Object {
	w.t.Helper()
	w.must(environment.Admin.List(w.t.Context(), list, client.InNamespace(w.namespace)))
	return objectsOf(list)
}

// get reads an object and reports whether there is one.
func (w *world) get(object client.Object, name string) bool {
	w.t.Helper()
	err := environment.Admin.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, object)
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

// edit changes an object as people do.
func edit[T client.Object](w *world, object T, name string, change func(T)) {
	w.t.Helper()
	if !w.get(object, name) {
		w.t.Fatalf("%s is missing", name)
	}
	change(object)
	w.must(environment.Admin.Update(w.t.Context(), object))
}

func (w *world) remove(object client.Object, name string) {
	w.t.Helper()
	object.SetNamespace(w.namespace)
	object.SetName(name)
	w.must(environment.Admin.Delete(w.t.Context(), object))
	w.orphans = true
}
