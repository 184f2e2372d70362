// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// login is a connection with the credentials of the binding Secret.
func (a *application) login(server *redistest.Server) *redis.Client {
	a.t.Helper()
	b := a.binding()
	return server.Client(a.t, b.Redis.Username, b.Redis.Password)
}

// acquire takes a lock under a prefix with a's credentials.
func (a *application) acquire(server *redistest.Server, prefix, key string) error {
	a.t.Helper()
	return a.login(server).FCall(a.t.Context(), redisproto.FunctionAcquire, []string{redisproto.LockKey(prefix, key), redisproto.SequenceKey(prefix)},
		strings.Repeat("0b", 16), 1000, "test").Err()
}

func (b *bench) users(server *redistest.Server) []string {
	b.t.Helper()
	users, err := server.Admin(b.t).Do(b.t.Context(), "ACL", "USERS").StringSlice()
	if err != nil {
		b.t.Fatal(err)
	}
	return users
}

func TestLocksAreKeptInRedis(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	a := b.application(environment.Namespace(t, nil), "billing", on(instance))
	if result := a.reconcile(); result.RequeueAfter == 0 {
		t.Error("the server is never looked at again")
	}
	a.wantReady()
	s := a.object.Status
	if s.Backend != v1alpha1.BackendRedis || s.InstanceRef == nil || s.InstanceRef.UID != string(instance.UID) || !strings.HasPrefix(s.Username, "lk-") {
		t.Errorf("status is %+v", s)
	}
	got := a.binding()
	if got.Type != binding.TypeRedis || got.Prefix != s.Prefix || got.Instance != string(instance.UID) || got.Redis.Host != "redis.example.com" ||
		got.Redis.Port != 6379 || got.Redis.Username != s.Username || got.Redis.TLS || got.Redis.Access != binding.AccessFunctions {
		t.Errorf("the binding is %+v, server %s", got, got.Redis)
	}
	if a.exists(&rbacv1.Role{}, "lockstead-billing") {
		t.Error("rights on Leases were granted")
	}
	if err := a.acquire(server, got.Prefix, "key"); err != nil {
		t.Errorf("acquire: %v", err)
	}
	a.wantNoWrites()
	b.events()
	for what, secret := range map[string]string{"the tenant's password": got.Redis.Password, "the administrator's password": server.AdminPassword()} {
		if strings.Contains(b.told.String(), secret) {
			t.Errorf("%s is in a status, an event or a log", what)
		}
	}
	if !strings.Contains(b.told.String(), s.Username) {
		t.Error("the search looked at nothing")
	}
}

func TestWithoutAnInstanceRefTheDefaultIsUsed(t *testing.T) {
	b := newBench(t)
	instance, _ := b.redis()
	b.restart(client.ObjectKeyFromObject(instance))
	a := b.application(b.namespace, "billing")
	a.reconcile()
	a.wantReady()
	// It stays when the default goes, and when it becomes another.
	second := &v1alpha1.RedisInstance{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "second"}, Spec: *instance.Spec.DeepCopy()}
	environment.Create(t, second)
	for _, name := range []string{"", "second", "nothing"} {
		key := client.ObjectKey{}
		if name != "" {
			key = client.ObjectKey{Namespace: b.namespace, Name: name}
		}
		b.restart(key)
		a.reconcile()
		a.wantReady()
		if ref := a.object.Status.InstanceRef; ref == nil || ref.UID != string(instance.UID) {
			t.Errorf("with the default %q it moved to %v", name, ref)
		}
		a.wantNoWrites()
	}
	b.restart(client.ObjectKeyFromObject(second))
	other := b.application(b.namespace, "other")
	b.examine(second)
	other.reconcile()
	if ref := other.object.Status.InstanceRef; ref == nil || ref.UID != string(second.UID) {
		t.Errorf("a new one is bound to %v, want the new default", ref)
	}
}

func TestTwoTenantsOfOneServerCannotTouchEachOther(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	mine := b.application(environment.Namespace(t, nil), "app", on(instance))
	theirs := b.application(environment.Namespace(t, nil), "app", on(instance))
	for _, a := range []*application{mine, theirs} {
		a.reconcile()
		a.wantReady()
		if err := a.acquire(server, a.object.Status.Prefix, "key"); err != nil {
			t.Fatalf("own lock: %v", err)
		}
	}
	own, other := mine.object.Status.Prefix, theirs.object.Status.Prefix
	as := mine.login(server)
	for _, command := range [][]any{
		{"GET", redisproto.LockKey(other, "key")},
		{"SET", redisproto.LockKey(other, "key"), "x"},
		{"DEL", redisproto.LockKey(other, "key")},
		{"PEXPIRE", redisproto.LockKey(other, "key"), 1},
		{"PTTL", redisproto.LockKey(other, "key")},
		{"INCR", redisproto.SequenceKey(other)},
		{"GET", redisproto.EpochKey(other)},
		{"SET", redisproto.EpochKey(own), "9 0 1"},
		{"GET", redisproto.ArmKey(own)},
		{"PUBLISH", redisproto.Channel(other, "key"), ""},
		{"SUBSCRIBE", redisproto.Channel(other, "key")},
		{"PSUBSCRIBE", "*"},
		{"FCALL", redisproto.FunctionAcquire, 2, redisproto.LockKey(other, "free"), redisproto.SequenceKey(other), strings.Repeat("0c", 16), 1000, ""},
		{"FCALL", redisproto.FunctionAcquire, 2, redisproto.LockKey(own, "free"), redisproto.SequenceKey(other), strings.Repeat("0c", 16), 1000, ""},
		{"FCALL", redisproto.FunctionRelease, 1, redisproto.LockKey(other, "key"), strings.Repeat("0b", 16), redisproto.Channel(other, "key")},
		{"FCALL_RO", redisproto.FunctionInspect, 1, redisproto.LockKey(other, "key")},
		{"FCALL", redisproto.FunctionArm, 1, redisproto.ArmKey(own), own, instance.Status.Epoch},
		{"FCALL", redisproto.FunctionArm, 1, redisproto.LockKey(own, "key"), own, instance.Status.Epoch},
		{"EVAL", "return redis.call('GET', KEYS[1])", 1, redisproto.LockKey(other, "key")},
		{"KEYS", "*"}, {"SCAN", 0}, {"CLIENT", "TRACKING", "ON", "BCAST"}, {"CLIENT", "LIST"}, {"MONITOR"},
		{"ACL", "LIST"}, {"CONFIG", "GET", "*"}, {"INFO"}, {"FLUSHALL"}, {"FUNCTION", "LIST"}, {"FUNCTION", "FLUSH"},
	} {
		err := as.Do(t.Context(), command...).Err()
		if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "can't") && !strings.Contains(err.Error(), "ACL failure") {
			t.Errorf("%v is answered with %v, want a refusal of the right", command, err)
		}
	}
	if ttl := server.Admin(t).PTTL(t.Context(), redisproto.LockKey(other, "key")).Val(); ttl <= 0 {
		t.Error("the other tenant's lock is gone")
	}

	// A release is done even if nobody can be told of it, and somebody else is not told.
	channel := redisproto.Channel(other, "key")
	subscription := theirs.login(server).Subscribe(t.Context(), channel)
	defer func() { _ = subscription.Close() }()
	if _, err := subscription.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := as.FCall(t.Context(), redisproto.FunctionRelease, []string{redisproto.LockKey(own, "key")}, strings.Repeat("0b", 16), channel).Err(); err != nil {
		t.Fatal(err)
	}
	if err := theirs.login(server).Publish(t.Context(), channel, "own").Err(); err != nil {
		t.Fatal(err)
	}
	if message, err := subscription.ReceiveMessage(t.Context()); err != nil || message.Payload != "own" {
		t.Errorf("the other tenant receives %v, %v", message, err)
	}
}

func TestADeletedLockNamespaceLosesItsUser(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	gone, stays := b.application(b.namespace, "gone", on(instance)), b.application(b.namespace, "stays", on(instance))
	gone.reconcile()
	stays.reconcile()
	connection := gone.login(server)
	if err := connection.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if len(gone.object.Finalizers) > 0 {
		t.Errorf("a finalizer holds the namespace: %v", gone.object.Finalizers)
	}
	remove(t, gone.object)
	b.examine(instance)
	users := b.users(server)
	if slices.Contains(users, gone.object.Status.Username) || !slices.Contains(users, stays.object.Status.Username) {
		t.Errorf("the server has users %v", users)
	}
	if err := connection.Ping(t.Context()).Err(); err == nil {
		t.Error("the connection of the deleted one still works")
	}
}

func TestAMissingInstanceGivesNoBinding(t *testing.T) {
	b := newBench(t)
	a := b.application(b.namespace, "billing", func(s *v1alpha1.LockNamespaceSpec) { s.InstanceRef = &v1alpha1.InstanceReference{Name: "locks"} })
	if message := a.wantRefused(v1alpha1.ReasonInstanceNotFound); !strings.Contains(message, b.namespace+"/locks") {
		t.Errorf("the condition says %q", message)
	}
	a.wantNothingMade()
	a.wantNoWrites()
	if events := b.events(); len(events) != 1 || !strings.HasPrefix(events[0], "Warning InstanceNotFound") {
		t.Errorf("events are %q", events)
	}
	b.redis()
	a.reconcile()
	a.wantReady()
}

func TestAMissingDefaultInstanceGivesNoBinding(t *testing.T) {
	b := newBench(t)
	b.restart(client.ObjectKey{Namespace: b.namespace, Name: "later"})
	a := b.application(b.namespace, "billing")
	a.wantRefused(v1alpha1.ReasonInstanceNotFound)
	a.wantNothingMade()
}

func TestTheOwnerOfAnInstanceConsents(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis(func(s *v1alpha1.RedisInstanceSpec) { s.AllowedNamespaces = v1alpha1.AllowedNamespaces{} })
	a := b.application(environment.Namespace(t, map[string]string{"locks": "yes"}), "billing", on(instance))
	a.wantRefused(v1alpha1.ReasonNotAllowedByInstance)
	a.wantNothingMade()
	same := b.application(b.namespace, "same", on(instance))
	same.reconcile()
	same.wantReady()

	allow := func(value string) {
		update(t, instance, func(i *v1alpha1.RedisInstance) {
			i.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{
				From: v1alpha1.NamespacesSelector, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"locks": value}},
			}
		})
	}
	allow("yes")
	a.reconcile()
	a.wantReady()
	same.wantRefused(v1alpha1.ReasonNotAllowedByInstance)
	connection := a.login(server)
	if err := connection.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}

	// Consent is withdrawn: the access ends at once, and the Secret stays, since pods mount it.
	allow("no")
	a.wantRefused(v1alpha1.ReasonNotAllowedByInstance)
	if err := connection.Ping(t.Context()).Err(); err == nil || slices.Contains(b.users(server), a.object.Status.Username) {
		t.Error("the user still works")
	}
	a.binding()
	a.wantNoWrites()
	b.examine(instance)
	if slices.Contains(b.users(server), a.object.Status.Username) {
		t.Error("the controller of RedisInstances brought the user back")
	}
	allow("yes")
	a.reconcile()
	a.wantReady()
	if err := a.acquire(server, a.object.Status.Prefix, "key"); err != nil {
		t.Errorf("acquire after the consent is back: %v", err)
	}
}

func TestATTLAboveTheInstancesIsRefused(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis(func(s *v1alpha1.RedisInstanceSpec) { s.Limits.MaxTTL = metav1.Duration{Duration: time.Minute} })
	a := b.application(b.namespace, "billing", on(instance))
	a.wantRefused(v1alpha1.ReasonTTLAboveInstanceMaximum)
	a.wantNothingMade()
	update(t, a.object, func(lns *v1alpha1.LockNamespace) { lns.Spec.TTL.Max = metav1.Duration{Duration: time.Minute} })
	a.reconcile()
	a.wantReady()
	// Asking for too much later takes nothing away.
	update(t, a.object, func(lns *v1alpha1.LockNamespace) { lns.Spec.TTL.Max = metav1.Duration{Duration: time.Hour} })
	a.wantRefused(v1alpha1.ReasonTTLAboveInstanceMaximum)
	if err := a.acquire(server, a.object.Status.Prefix, "key"); err != nil || a.binding().TTLMax != time.Minute {
		t.Errorf("acquire: %v; the Secret allows %s", err, a.binding().TTLMax)
	}
}

func TestNoBindingToRedisWhileLeasesExist(t *testing.T) {
	b := newBench(t)
	instance, _ := b.redis()
	held, err := leaseformat.Create(b.namespace, leaseformat.Acquisition{
		Prefix: redisproto.Prefix("lk", b.namespace+"/billing"), Key: "k", ID: strings.Repeat("0a", 16), Duration: time.Minute, Now: time.Unix(1, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	environment.Create(t, held)
	a := b.application(b.namespace, "billing", on(instance))
	a.wantRefused(v1alpha1.ReasonLeasesExist)
	a.wantNothingMade()
	if result := a.reconcile(); result.RequeueAfter == 0 {
		t.Error("it is not looked at again")
	}
	other := b.application(b.namespace, "other", on(instance))
	other.reconcile()
	other.wantReady()
	remove(t, held)
	a.reconcile()
	a.wantReady()
}

func TestAnInstanceMadeAnewIsAnother(t *testing.T) {
	b := newBench(t)
	instance, _ := b.redis()
	a := b.application(b.namespace, "billing", on(instance))
	a.reconcile()
	a.wantReady()
	secret := a.secret()
	remove(t, instance)
	if message := a.wantRefused(v1alpha1.ReasonInstanceNotFound); !strings.Contains(message, "bound") {
		t.Errorf("the condition says %q", message)
	}
	again := b.instance()
	b.examine(again)
	a.wantRefused(v1alpha1.ReasonInstanceReplaced)
	// Also when the record in the status is lost.
	a.object.Status = v1alpha1.LockNamespaceStatus{}
	if err := environment.Admin.Status().Update(t.Context(), a.object); err != nil {
		t.Fatal(err)
	}
	a.wantRefused(v1alpha1.ReasonInstanceReplaced)
	if again := (&corev1.Secret{}); !a.exists(again, secret.Name) || again.ResourceVersion != secret.ResourceVersion {
		t.Error("the Secret was changed")
	}
}

func TestAServerThatIsDown(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	b.address = ""
	a := b.application(b.namespace, "billing", on(instance))
	if result := a.reconcile(); result.RequeueAfter == 0 {
		t.Error("it is not looked at again")
	}
	a.wantUnprogrammed(v1alpha1.ReasonInstanceNotAvailable)
	if a.object.Status.Binding != nil || a.exists(&corev1.Secret{}, "billing-lock") {
		t.Error("a binding to nothing was written")
	}
	a.wantNoWrites()
	b.address = server.Addr()
	a.reconcile()
	a.wantReady()
	password := a.binding().Redis.Password

	// A server of somebody else forgets its users when it restarts.
	server.Kill(t)
	server.Run(t)
	b.examine(instance)
	a.reconcile()
	a.wantReady()
	if err := a.acquire(server, a.object.Status.Prefix, "key"); err != nil || a.binding().Redis.Password != password {
		t.Errorf("after the restart: acquire %v, same password %t", err, a.binding().Redis.Password == password)
	}
}

func TestWhatTheServerForgotIsProgrammedAgain(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	a := b.application(b.namespace, "billing", on(instance))
	a.reconcile()
	username := a.object.Status.Username
	for _, change := range [][]any{
		{"ACL", "DELUSER", username},
		{"ACL", "SETUSER", username, "~*", "+@all"},
		{"ACL", "SETUSER", username, "nopass"},
	} {
		if err := server.Admin(t).Do(t.Context(), change...).Err(); err != nil {
			t.Fatal(err)
		}
		a.reconcile()
		a.wantReady()
		if err := a.acquire(server, a.object.Status.Prefix, fmt.Sprint(change...)); err != nil {
			t.Errorf("%v: acquire: %v", change, err)
		}
		if err := a.login(server).Do(t.Context(), "GET", "other").Err(); err == nil || errors.Is(err, redis.Nil) {
			t.Errorf("%v: the user reads every key: %v", change, err)
		}
		if err := server.Client(t, username, "wrong").Ping(t.Context()).Err(); err == nil {
			t.Errorf("%v: any password works", change)
		}
	}
}

func TestRedisBindingSurvivesAFailureOfEveryWrite(t *testing.T) {
	b := newBench(t)
	instance, _ := b.redis()
	failEveryWrite(t, b, on(instance))
}

func TestARefusedWriteIsTold(t *testing.T) {
	b := newBench(t)
	instance, _ := b.redis()
	a := b.application(b.namespace, "billing", on(instance))
	b.writes.Fail(func(write string) error {
		if write == "create *v1.Secret" {
			return apierrors.NewInternalError(errors.New("refused by the test"))
		}
		return nil
	})
	if _, err := a.try(); err == nil {
		t.Error("a refused write was no error")
	}
	if message := a.wantUnprogrammed(v1alpha1.ReasonProgramFailed); !strings.Contains(message, "refused by the test") {
		t.Errorf("the condition says %q", message)
	}
	b.writes.Fail(nil)
	a.reconcile()
	a.wantReady()
}

// TestAStatusThatNamesAnotherTenantsUserIsNotBelieved: whoever can write the status of a LockNamespace must not get the operator to reset
// another's user.
func TestAStatusThatNamesAnotherTenantsUserIsNotBelieved(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	mine := b.application(environment.Namespace(t, nil), "app", on(instance))
	theirs := b.application(environment.Namespace(t, nil), "app", on(instance))
	for _, a := range []*application{mine, theirs} {
		a.reconcile()
		a.wantReady()
	}
	own := mine.object.Status.Username
	mine.object.Status.Username, mine.object.Status.Prefix = theirs.object.Status.Username, theirs.object.Status.Prefix
	if err := environment.Admin.Status().Update(t.Context(), mine.object); err != nil {
		t.Fatal(err)
	}
	mine.reconcile()
	if err := theirs.acquire(server, theirs.object.Status.Prefix, "key"); err != nil {
		t.Errorf("the other tenant cannot lock any more: %v", err)
	}
	if err := mine.acquire(server, theirs.object.Status.Prefix, "key"); err == nil {
		t.Error("the other tenant's prefix was given away")
	}
	if got := mine.binding().Redis.Username; got != own {
		t.Errorf("the binding names user %s, want %s", got, own)
	}
}
