// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func shareFrom(namespace, name string) func(*v1alpha1.LockNamespaceSpec) {
	return func(spec *v1alpha1.LockNamespaceSpec) {
		spec.ShareFrom = &v1alpha1.LockNamespaceReference{Namespace: namespace, Name: name}
	}
}

func shareWith(grants ...v1alpha1.ShareGrant) func(*v1alpha1.LockNamespaceSpec) {
	return func(spec *v1alpha1.LockNamespaceSpec) { spec.ShareWith = grants }
}

// grant changes whom an owner shares with.
func (a *application) grant(grants ...v1alpha1.ShareGrant) {
	a.t.Helper()
	update(a.t, a.object, func(lns *v1alpha1.LockNamespace) { lns.Spec.ShareWith = grants })
}

// vanish deletes a LockNamespace, and its Secret as a cluster's garbage collector does.
func (a *application) vanish() {
	a.t.Helper()
	remove(a.t, a.secret())
	remove(a.t, a.object)
}

// locks is the library as a pod with a's Secret has it.
func (a *application) locks(server *redistest.Server) *lock.Client {
	a.t.Helper()
	found := a.binding()
	host, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		a.t.Fatal(err)
	}
	found.Redis.Host = host
	if found.Redis.Port, err = strconv.Atoi(port); err != nil {
		a.t.Fatal(err)
	}
	driver, err := redislock.FromBinding(found, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	locks, err := lock.New(driver, found.Prefix, &lock.Options{DefaultTTL: found.TTLDefault, MaxTTL: found.TTLMax})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = driver.Close() })
	return locks
}

func TestLocksAreSharedWithConsentOfBothSides(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis(allowPrefixes)
	theirs := environment.Namespace(t, nil)
	owner := b.application(b.namespace, "shop", on(instance), withPrefix("team/shop"))
	sharer := b.application(theirs, "audit", shareFrom(b.namespace, "shop"))

	// Nobody learns what there is elsewhere.
	message := sharer.wantRefused(v1alpha1.ReasonShareNotGranted)
	ghost := b.application(theirs, "ghost", shareFrom(b.namespace, "nothing"))
	if got := ghost.wantRefused(v1alpha1.ReasonShareNotGranted); strings.ReplaceAll(strings.ReplaceAll(got, "nothing", "shop"), "ghost", "audit") != message {
		t.Errorf("a refusal is told from an absence: %q and %q", message, got)
	}
	sharer.wantNothingMade()
	owner.grant(v1alpha1.ShareGrant{Namespace: theirs, Name: "another"})
	sharer.wantRefused(v1alpha1.ReasonShareNotGranted)
	owner.grant(v1alpha1.ShareGrant{Namespace: theirs, Name: "audit"})
	sharer.wantRefused(v1alpha1.ReasonShareOwnerNotReady)
	sharer.wantNothingMade()

	owner.reconcile()
	owner.wantReady()
	sharer.reconcile()
	sharer.wantReady()
	sharer.wantNoWrites()
	mine, yours := owner.binding(), sharer.binding()
	if yours.Prefix != "lk:{team/shop}:" || sharer.object.Status.Prefix != yours.Prefix || !mine.SameBackend(yours) || yours.LockNamespace != theirs+"/audit" {
		t.Errorf("the sharer's binding is %s", yours)
	}
	if mine.Redis.Username == yours.Redis.Username || mine.Redis.Password == yours.Redis.Password {
		t.Error("both log in as one user")
	}

	// Two clients of the library exclude each other, and their tokens are of one sequence.
	held, err := owner.locks(server).TryAcquire(t.Context(), "order/1", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sharer.locks(server).TryAcquire(t.Context(), "order/1", 0, 0); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("the sharer gets a lock that the owner holds: %v", err)
	}
	token := held.Token()
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := sharer.locks(server).TryAcquire(t.Context(), "order/1", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if again.Token().Compare(token) <= 0 {
		t.Errorf("the sharer's token %s is not greater than the owner's %s", again.Token(), token)
	}
	if err := again.Release(t.Context()); err != nil {
		t.Fatal(err)
	}

	// Consent is withdrawn: the access ends at once, and the Secret stays, since pods mount it.
	connection := sharer.login(server)
	if err := connection.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	owner.grant(v1alpha1.ShareGrant{Namespace: theirs, Name: "another"})
	sharer.wantRefused(v1alpha1.ReasonShareNotGranted)
	if err := connection.Ping(t.Context()).Err(); err == nil || slices.Contains(b.users(server), sharer.object.Status.Username) {
		t.Error("the sharer still has access")
	}
	sharer.binding()
	sharer.wantNoWrites()
	b.examine(instance)
	if slices.Contains(b.users(server), sharer.object.Status.Username) {
		t.Error("the controller of RedisInstances brought the user back")
	}
	owner.reconcile()
	owner.wantReady()

	owner.grant(v1alpha1.ShareGrant{Namespace: theirs})
	sharer.reconcile()
	sharer.wantReady()
	if sharer.binding().Redis.Password != yours.Redis.Password {
		t.Error("the password changed with the consent")
	}
	if err := sharer.acquire(server, yours.Prefix, "key"); err != nil {
		t.Errorf("acquire after the consent is back: %v", err)
	}

	// The owner goes.
	owner.vanish()
	sharer.wantRefused(v1alpha1.ReasonShareNotGranted)
	if slices.Contains(b.users(server), sharer.object.Status.Username) {
		t.Error("the sharer still has access")
	}
	anew := b.application(b.namespace, "shop", on(instance), withPrefix("team/shop"), shareWith(v1alpha1.ShareGrant{Namespace: theirs}))
	sharer.wantRefused(v1alpha1.ReasonShareOwnerNotReady)
	anew.reconcile()
	anew.wantReady()
	sharer.reconcile()
	sharer.wantReady()
	anew.vanish()
	moved := b.application(b.namespace, "shop", on(instance), withPrefix("team/other"), shareWith(v1alpha1.ShareGrant{Namespace: theirs}))
	moved.reconcile()
	moved.wantReady()
	sharer.wantRefused(v1alpha1.ReasonShareOwnerMoved)
	if slices.Contains(b.users(server), sharer.object.Status.Username) || sharer.binding().Prefix != "lk:{team/shop}:" {
		t.Error("the sharer moved, or kept its access")
	}
}

func TestTheInstanceHasToAllowSharersToo(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis(func(s *v1alpha1.RedisInstanceSpec) { s.AllowedNamespaces = v1alpha1.AllowedNamespaces{} })
	theirs := environment.Namespace(t, nil)
	owner := b.application(b.namespace, "shop", on(instance), shareWith(v1alpha1.ShareGrant{Namespace: theirs}))
	owner.reconcile()
	owner.wantReady()
	sharer := b.application(theirs, "audit", shareFrom(b.namespace, "shop"))
	sharer.wantRefused(v1alpha1.ReasonNotAllowedByInstance)
	sharer.wantNothingMade()
	update(t, instance, func(i *v1alpha1.RedisInstance) { i.Spec.AllowedNamespaces.From = v1alpha1.NamespacesAll })
	sharer.reconcile()
	sharer.wantReady()
	// An owner that is not allowed any more shares nothing.
	update(t, instance, func(i *v1alpha1.RedisInstance) {
		i.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesSelector, Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": theirs},
		}}
	})
	sharer.wantRefused(v1alpha1.ReasonShareOwnerNotReady)
	if slices.Contains(b.users(server), sharer.object.Status.Username) {
		t.Error("the sharer still has access")
	}
}

func TestASharerHasTheOwnersLongestTTL(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	theirs := environment.Namespace(t, nil)
	longest := func(d time.Duration) func(*v1alpha1.LockNamespaceSpec) {
		return func(s *v1alpha1.LockNamespaceSpec) {
			s.TTL = v1alpha1.TTL{Default: metav1.Duration{Duration: time.Second}, Max: metav1.Duration{Duration: d}}
		}
	}
	owner := b.application(b.namespace, "shop", on(instance), longest(5*time.Minute), shareWith(v1alpha1.ShareGrant{Namespace: theirs}))
	owner.reconcile()
	sharer := b.application(theirs, "audit", shareFrom(b.namespace, "shop"), longest(time.Hour))
	sharer.wantRefused(v1alpha1.ReasonTTLAboveOwnerMaximum)
	update(t, sharer.object, func(lns *v1alpha1.LockNamespace) { longest(time.Minute)(&lns.Spec) })
	record := func() string {
		return server.Admin(t).Get(t.Context(), redisproto.EpochKey(owner.object.Status.Prefix)).Val()
	}
	before := record()
	sharer.reconcile()
	sharer.wantReady()
	if sharer.binding().TTLMax != time.Minute {
		t.Errorf("the sharer's longest TTL is %s", sharer.binding().TTLMax)
	}
	b.examine(instance)
	if after := record(); after != before || !strings.Contains(after, " 300000 ") {
		t.Errorf("the epoch record went from %q to %q", before, after)
	}
}

func TestLeasesAreNotShared(t *testing.T) {
	b := newBench(t)
	theirs := environment.Namespace(t, nil)
	owner := b.application(b.namespace, "shop", shareWith(v1alpha1.ShareGrant{Namespace: theirs}))
	owner.reconcile()
	owner.wantReady()
	sharer := b.application(theirs, "audit", shareFrom(b.namespace, "shop"))
	sharer.wantRefused(v1alpha1.ReasonNeedsRedis)
	sharer.wantNothingMade()
	prefixed := b.application(b.namespace, "billing", withPrefix("team/a"))
	prefixed.wantRefused(v1alpha1.ReasonNeedsRedis)
	prefixed.wantNothingMade()
	instance, _ := b.redis(allowPrefixes)
	b.restart(client.ObjectKeyFromObject(instance))
	prefixed.reconcile()
	prefixed.wantReady()
	// One that shares cannot be shared from.
	chained := b.application(theirs, "chained", shareFrom(theirs, "audit"))
	chained.wantRefused(v1alpha1.ReasonShareNotGranted)
}
