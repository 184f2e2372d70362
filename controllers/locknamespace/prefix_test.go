// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func allowPrefixes(spec *v1alpha1.RedisInstanceSpec) {
	spec.Limits.CustomPrefixes = v1alpha1.CustomPrefixesAllowed
}

func withPrefix(prefix string) func(*v1alpha1.LockNamespaceSpec) {
	return func(spec *v1alpha1.LockNamespaceSpec) { spec.Prefix = prefix }
}

func TestACustomPrefixHasToBeAllowed(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	a := b.application(b.namespace, "billing", on(instance), withPrefix("team/a"))
	a.wantRefused(v1alpha1.ReasonCustomPrefixForbidden)
	a.wantNothingMade()
	a.wantNoWrites()
	update(t, instance, func(i *v1alpha1.RedisInstance) { allowPrefixes(&i.Spec) })
	a.reconcile()
	a.wantReady()
	if got := a.binding().Prefix; got != "lk:{team/a}:" || a.object.Status.Prefix != got {
		t.Errorf("the prefix is %s, in the status %s", got, a.object.Status.Prefix)
	}
	if err := a.acquire(server, "lk:{team/a}:", "key"); err != nil {
		t.Errorf("acquire: %v", err)
	}
	if err := a.acquire(server, redisproto.Prefix("lk", b.namespace+"/billing"), "key"); err == nil {
		t.Error("the default prefix is open too")
	}
	a.wantNoWrites()
	// What is bound stays.
	update(t, instance, func(i *v1alpha1.RedisInstance) { i.Spec.Limits.CustomPrefixes = v1alpha1.CustomPrefixesForbidden })
	a.reconcile()
	a.wantReady()
	// The instance's controller looks after the record of the prefix.
	if err := server.Admin(t).Del(t.Context(), redisproto.EpochKey("lk:{team/a}:")).Err(); err != nil {
		t.Fatal(err)
	}
	b.examine(instance)
	if instance.Status.QuarantineUntil == nil {
		t.Error("nobody noticed that the epoch record of the prefix is gone")
	}
}

func TestAPrefixBelongsToTheFirst(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis(allowPrefixes)
	namespaces := []string{environment.Namespace(t, nil), environment.Namespace(t, nil)}
	slices.Sort(namespaces) // Of two of the same second the name decides.
	first := b.application(namespaces[0], "first", on(instance), withPrefix("team/a"))
	second := b.application(namespaces[1], "second", on(instance), withPrefix("team/a"))
	// The older has not been seen yet, and comes first all the same.
	wantTaken(t, second)
	first.reconcile()
	first.wantReady()
	wantTaken(t, second)
	second.wantNothingMade()
	if events := b.events(); len(events) != 3 || !strings.Contains(events[1], "LockNamespace "+second.object.Namespace+"/second asks for the prefix lk:{team/a}:, which "+first.object.Namespace+"/first has") {
		t.Errorf("events are %q", events)
	}
	second.wantNoWrites()
	other := b.application(environment.Namespace(t, nil), "other", on(instance), withPrefix("team/b"))
	other.reconcile()
	other.wantReady()
	if err := first.acquire(server, "lk:{team/a}:", "key"); err != nil {
		t.Fatal(err)
	}

	// The prefix is free when its LockNamespace is gone. Locks run out, and tokens go on.
	before := sequence(t, server, "lk:{team/a}:")
	remove(t, first.object)
	second.reconcile()
	second.wantReady()
	if held, err := second.login(server).Exists(t.Context(), redisproto.LockKey("lk:{team/a}:", "key")).Result(); err == nil && held == 0 {
		t.Error("the lock of the deleted LockNamespace is gone before its time")
	}
	if err := second.acquire(server, "lk:{team/a}:", "other"); err != nil {
		t.Errorf("acquire: %v", err)
	}
	if after := sequence(t, server, "lk:{team/a}:"); after <= before {
		t.Errorf("the counter went from %d to %d", before, after)
	}
}

func wantTaken(t *testing.T, a *application) {
	t.Helper()
	message := a.wantRefused(v1alpha1.ReasonPrefixTaken)
	text := a.told.String()
	if strings.Contains(message, "first") || strings.Contains(text[max(0, len(text)-4000):], "/first") {
		t.Errorf("the loser learns who has the prefix: %q", message)
	}
}

func sequence(t *testing.T, server *redistest.Server, prefix string) int {
	t.Helper()
	n, err := server.Admin(t).Get(t.Context(), redisproto.SequenceKey(prefix)).Int()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestACustomPrefixCanBeAnothersDefault(t *testing.T) {
	b := newBench(t)
	instance, _ := b.redis(allowPrefixes)
	names := environment.Namespace(t, nil)
	squatter := b.application(environment.Namespace(t, nil), "squatter", on(instance), withPrefix(names+"/billing"))
	squatter.reconcile()
	squatter.wantReady()
	a := b.application(names, "billing", on(instance))
	a.wantRefused(v1alpha1.ReasonPrefixTaken)
	a.wantNothingMade()
	remove(t, squatter.object)
	a.reconcile()
	a.wantReady()
}

// An older LockNamespace that may not have the prefix does not keep it from a younger one.
func TestAnOlderOneThatIsNotAllowedHoldsNobodyUp(t *testing.T) {
	b := newBench(t)
	allowed := environment.Namespace(t, map[string]string{"locks": "yes"}, "test-z-")
	instance, _ := b.redis(allowPrefixes, func(s *v1alpha1.RedisInstanceSpec) {
		s.AllowedNamespaces = v1alpha1.AllowedNamespaces{
			From: v1alpha1.NamespacesSelector, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"locks": "yes"}},
		}
	})
	older := b.application(environment.Namespace(t, nil, "test-a-"), "older", on(instance), withPrefix("team/a"))
	younger := b.application(allowed, "younger", on(instance), withPrefix("team/a"))
	younger.reconcile()
	younger.wantReady()
	older.wantRefused(v1alpha1.ReasonNotAllowedByInstance)
}

// Whoever can write Secrets can write one that looks like the binding of a LockNamespace which was never bound. It takes nothing from others.
func TestAForgedRecordTakesNothing(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis(allowPrefixes, func(s *v1alpha1.RedisInstanceSpec) { s.Limits.MaxLockNamespaces = 1 })
	forger := b.application(environment.Namespace(t, nil), "forger", on(instance), withPrefix("team/a"))
	holder := b.application(environment.Namespace(t, nil), "holder", on(instance), withPrefix("team/a"))
	remove(t, forger.object)
	holder.reconcile()
	holder.wantReady()
	forger = b.application(forger.object.Namespace, "forger", on(instance), withPrefix("team/a"))
	environment.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: forger.object.Namespace, Name: "forger-lock",
			Annotations:     map[string]string{"lockstead.dev/redisinstance": instance.Namespace + "/" + instance.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(forger.object, v1alpha1.GroupVersion.WithKind("LockNamespace"))},
		},
		StringData: map[string]string{"type": "redis", "instance": string(instance.UID)},
	})
	for range 2 {
		forger.wantRefused(v1alpha1.ReasonPrefixTaken)
		if forger.object.Status.Backend != "" || forger.object.Status.InstanceRef != nil {
			t.Fatalf("the forged record was taken over: %+v", forger.object.Status)
		}
	}
	holder.reconcile()
	holder.wantReady()
	if slices.Contains(b.users(server), "lk-"+strings.ReplaceAll(string(forger.object.UID), "-", "")[:12]) {
		t.Error("the forger has a user")
	}
	// Nor does it get around the limit.
	late := b.application(forger.object.Namespace, "late", on(instance))
	late.wantRefused(v1alpha1.ReasonLimitReached)
}

// Two records of one prefix can come from a backup. The older one wins, and the other loses its access.
func TestOfTwoRecordsTheOlderWins(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis(allowPrefixes)
	older := b.application(environment.Namespace(t, nil), "older", on(instance), withPrefix("team/a"))
	older.reconcile()
	older.wantReady()
	younger := b.application(environment.Namespace(t, nil), "younger", on(instance), withPrefix("team/a"), func(s *v1alpha1.LockNamespaceSpec) {
		s.TTL.Default, s.TTL.Max = metav1.Duration{Duration: time.Second}, metav1.Duration{Duration: time.Minute}
	})
	younger.object.Status = older.object.Status
	younger.object.Status.Conditions = nil
	if err := environment.Admin.Status().Update(t.Context(), younger.object); err != nil {
		t.Fatal(err)
	}
	// They were made in the same second, perhaps, and then the name decides.
	winner, loser := older, younger
	if older.object.CreationTimestamp.Equal(&younger.object.CreationTimestamp) && younger.object.Namespace < older.object.Namespace {
		winner, loser = younger, older
	}
	loser.wantRefused(v1alpha1.ReasonPrefixTaken)
	winner.reconcile()
	winner.wantReady()
	b.examine(instance)
	if got := server.Admin(t).Get(t.Context(), redisproto.EpochKey("lk:{team/a}:")).Val(); !strings.Contains(got, " "+fmtMillis(winner.object.Spec.TTL.Max)+" ") {
		t.Errorf("the epoch record is %q, want the longest TTL of the winner", got)
	}
	loser.wantRefused(v1alpha1.ReasonPrefixTaken)
	if slices.Contains(b.users(server), loser.object.Status.Username) && loser.object.Status.Username != winner.object.Status.Username {
		t.Error("the loser still has a user")
	}
}

func TestTheNumberOfLockNamespacesIsLimited(t *testing.T) {
	b := newBench(t)
	instance, _ := b.redis(func(s *v1alpha1.RedisInstanceSpec) { s.Limits.MaxLockNamespaces = 2 })
	limit := func(n int32) {
		update(t, instance, func(i *v1alpha1.RedisInstance) { i.Spec.Limits.MaxLockNamespaces = n })
	}
	one, two, three := b.application(b.namespace, "one", on(instance)), b.application(b.namespace, "two", on(instance)), b.application(b.namespace, "three", on(instance))
	one.reconcile()
	two.reconcile()
	three.wantRefused(v1alpha1.ReasonLimitReached)
	three.wantNothingMade()
	three.wantNoWrites()
	limit(1)
	for _, a := range []*application{one, two} {
		a.reconcile()
		a.wantReady()
	}
	limit(3)
	three.reconcile()
	three.wantReady()
	limit(2)
	remove(t, two.object)
	four := b.application(b.namespace, "four", on(instance))
	four.wantRefused(v1alpha1.ReasonLimitReached)
	remove(t, three.object)
	four.reconcile()
	four.wantReady()
}

func fmtMillis(d metav1.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Many that are bound at the same time take no more places than there are, and no prefix twice.
func TestRacingForThePrefixAndTheLastPlaces(t *testing.T) {
	b := newBench(t)
	instance, _ := b.redis(allowPrefixes, func(s *v1alpha1.RedisInstanceSpec) { s.Limits.MaxLockNamespaces = 3 })
	var all []*application
	for n := range 8 {
		change := []func(*v1alpha1.LockNamespaceSpec){on(instance)}
		if n < 4 {
			change = append(change, withPrefix("team/a"))
		}
		all = append(all, b.application(environment.Namespace(t, nil), "app", change...))
	}
	var running sync.WaitGroup
	for _, a := range all {
		running.Go(func() {
			if _, err := b.controller.Reconcile(b.ctx, a.object.DeepCopy()); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	bound, withPrefix := 0, 0
	for _, a := range all {
		environment.Get(t, a.object)
		if a.object.Status.Backend == "" {
			continue
		}
		bound++
		if a.object.Status.Prefix == "lk:{team/a}:" {
			withPrefix++
		}
	}
	if bound != 3 || withPrefix > 1 {
		t.Errorf("%d are bound, %d of them to one prefix", bound, withPrefix)
	}
}
