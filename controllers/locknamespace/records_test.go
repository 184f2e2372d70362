// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// records asks for a share.
func records(memory string) func(*v1alpha1.LockNamespaceSpec) {
	return func(spec *v1alpha1.LockNamespaceSpec) {
		spec.IdempotencyRecords = &v1alpha1.IdempotencyRecords{Memory: quantity(memory), MaxResponseSize: quantity("8Ki")}
	}
}

// limited is an instance whose server has an upper limit of its memory.
func (b *bench) limited(change ...func(*v1alpha1.RedisInstanceSpec)) (*v1alpha1.RedisInstance, *redistest.Server) {
	b.t.Helper()
	instance, server := b.redis(change...)
	b.maxMemory(server, "100mb")
	b.examine(instance)
	return instance, server
}

func (b *bench) maxMemory(server *redistest.Server, limit string) {
	b.t.Helper()
	if err := server.Admin(b.t).ConfigSet(b.t.Context(), "maxmemory", limit).Err(); err != nil {
		b.t.Fatal(err)
	}
}

// store is what the application has, with the credentials of its Secret.
func (a *application) store(server *redistest.Server) *redisstore.LockServer {
	a.t.Helper()
	store, err := redisstore.OnLockServer(a.login(server), a.binding().Prefix)
	if err != nil {
		a.t.Fatal(err)
	}
	return store
}

// keep makes a record.
func (a *application) keep(server *redistest.Server, size int) (key idempotency.Key, err error) {
	a.t.Helper()
	_, _ = rand.Read(key[:])
	store, owner := a.store(server), idempotency.Ownership{Owner: rand.Text()}
	if _, err := store.Begin(a.t.Context(), key, idempotency.Claim{Ownership: owner, Lease: time.Minute, Retention: time.Hour}); err != nil {
		return key, err
	}
	return key, store.Complete(a.t.Context(), key, owner, idempotency.Result{State: idempotency.Done, Response: make([]byte, size), Retention: time.Hour})
}

// wantNoRecords wants the application to have no right to keep records, and nothing of it to be left.
func (a *application) wantNoRecords(server *redistest.Server) {
	a.t.Helper()
	var refused *redisstore.NotGrantedError
	if _, err := a.keep(server, 1); !errors.As(err, &refused) {
		a.t.Errorf("a record without a share: %v", err)
	}
	if keys := server.Admin(a.t).Keys(a.t.Context(), a.object.Status.Prefix+"!records*").Val(); len(keys) > 0 {
		a.t.Errorf("left over: %v", keys)
	}
	if a.object.Status.IdempotencyRecords != nil || a.binding().Redis.Records != nil {
		a.t.Errorf("status %+v and the Secret tell of records", a.object.Status.IdempotencyRecords)
	}
}

func TestRecordsGetAShareAndAreRefusedBeyondIt(t *testing.T) {
	b := newBench(t)
	instance, server := b.limited()
	a := b.application(environment.Namespace(t, nil), "billing", on(instance), records("1Mi"))
	a.reconcile()
	a.wantReady()
	a.wantCondition(v1alpha1.ConditionRecordsGranted, metav1.ConditionTrue, v1alpha1.ReasonGranted)
	if got := a.binding().Redis.Records; got == nil || *got != (binding.Records{Share: 1 << 20, MaxResponse: 8 << 10}) {
		t.Errorf("the binding says %+v", got)
	}
	a.wantNoWrites()
	b.examine(instance)
	if memory := instance.Status.RecordMemory; memory == nil || memory.Granted.Value() != 1<<20 || memory.Capacity.Value() != 50<<20 {
		t.Errorf("the RedisInstance tells %+v", memory)
	}
	without := b.application(environment.Namespace(t, nil), "plain", on(instance))
	without.reconcile()
	without.wantReady()
	without.wantNoRecords(server)
	if meta.FindStatusCondition(without.object.Status.Conditions, v1alpha1.ConditionRecordsGranted) != nil {
		t.Error("a LockNamespace that asks for no records has a condition about them")
	}

	var err error
	kept := 0
	for ; err == nil && kept < 1000; kept++ {
		_, err = a.keep(server, 8<<10)
	}
	if full, ok := errors.AsType[*idempotency.StoreFullError](err); !ok || full.Share != 1<<20 || kept < 50 {
		t.Errorf("after %d records: %v", kept, err)
	}
	if err := a.acquire(server, a.object.Status.Prefix, "key"); err != nil {
		t.Errorf("a lock beside a full share: %v", err)
	}
	if err := without.acquire(server, without.object.Status.Prefix, "key"); err != nil {
		t.Errorf("a lock of another: %v", err)
	}
	// More is granted in place, and nothing is lost.
	update(t, a.object, func(lns *v1alpha1.LockNamespace) { records("2Mi")(&lns.Spec) })
	a.reconcile()
	a.wantCondition(v1alpha1.ConditionRecordsGranted, metav1.ConditionTrue, v1alpha1.ReasonGranted)
	if _, err := a.keep(server, 8<<10); err != nil {
		t.Errorf("after the raise: %v", err)
	}
	a.wantNoWrites()
}

// As after an upgrade, too: the LockNamespace has no such field.
func TestRecordsComeAndGoWithTheField(t *testing.T) {
	for name, start := range map[string]func(b *bench) (*v1alpha1.RedisInstance, *redistest.Server){
		"external": func(b *bench) (*v1alpha1.RedisInstance, *redistest.Server) { return b.limited() },
		"managed": func(b *bench) (*v1alpha1.RedisInstance, *redistest.Server) {
			instance, server := b.managed()
			b.maxMemory(server, "100mb")
			b.examine(instance)
			return instance, server
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			instance, server := start(b)
			a := b.application(b.namespace, "billing", on(instance))
			a.reconcile()
			a.wantReady()
			a.wantNoRecords(server)
			rules := func() []string {
				list, err := server.Admin(t).Do(t.Context(), "ACL", "LIST").StringSlice()
				if err != nil {
					t.Fatal(err)
				}
				slices.Sort(list)
				return list
			}
			before, secret := rules(), a.secret().Data
			if strings.Contains(strings.Join(before, " "), "records") {
				t.Errorf("without records there is a right to them: %v", before)
			}
			for range 2 {
				update(t, a.object, func(lns *v1alpha1.LockNamespace) { records("1Mi")(&lns.Spec) })
				a.reconcile()
				a.wantReady()
				if _, err := a.keep(server, 100); err != nil {
					t.Fatal(err)
				}
				b.examine(instance)
				if _, err := a.keep(server, 100); err != nil {
					t.Fatalf("after a look at the server: %v", err)
				}
				a.wantNoWrites()
				update(t, a.object, func(lns *v1alpha1.LockNamespace) { lns.Spec.IdempotencyRecords = nil })
				a.reconcile()
				a.wantReady()
				a.wantNoRecords(server)
				if after := rules(); !slices.Equal(after, before) {
					t.Errorf("the users are\n%v\nand were\n%v", after, before)
				}
				if after := a.secret().Data; fmt.Sprint(after) != fmt.Sprint(secret) {
					t.Error("the Secret is not as before")
				}
				a.wantNoWrites()
			}
		})
	}
}

func TestSharesAreGrantedAsFarAsThereIsRoom(t *testing.T) {
	b := newBench(t)
	percent := int32(2)
	instance, server := b.limited(func(spec *v1alpha1.RedisInstanceSpec) { spec.Limits.RecordMemoryPercent = &percent })
	first := b.application(b.namespace, "first", on(instance), records("1500Ki"))
	first.reconcile()
	first.wantCondition(v1alpha1.ConditionRecordsGranted, metav1.ConditionTrue, v1alpha1.ReasonGranted)
	second := b.application(environment.Namespace(t, nil), "second", on(instance), records("1Mi"))
	refused := func() {
		t.Helper()
		result := second.reconcile()
		second.wantReady()
		message := second.wantCondition(v1alpha1.ConditionRecordsGranted, metav1.ConditionFalse, v1alpha1.ReasonRecordMemoryExhausted)
		if !strings.Contains(message, "2Mi") || strings.Contains(message, "first") || result.RequeueAfter > time.Minute {
			t.Errorf("message is %q, tried again in %s", message, result.RequeueAfter)
		}
	}
	refused()
	second.wantNoRecords(server)
	if err := second.acquire(server, second.object.Status.Prefix, "key"); err != nil {
		t.Errorf("a lock without records: %v", err)
	}
	second.wantNoWrites()
	// A smaller one fits, and stays when more is asked for.
	update(t, second.object, func(lns *v1alpha1.LockNamespace) { records("500Ki")(&lns.Spec) })
	second.reconcile()
	second.wantCondition(v1alpha1.ConditionRecordsGranted, metav1.ConditionTrue, v1alpha1.ReasonGranted)
	update(t, second.object, func(lns *v1alpha1.LockNamespace) { records("1Mi")(&lns.Spec) })
	refused()
	if got := second.binding().Redis.Records; got == nil || got.Share != 500<<10 {
		t.Errorf("the binding says %+v", got)
	}
	if _, err := second.keep(server, 100); err != nil {
		t.Errorf("with the share from before: %v", err)
	}
	// What the first gives back is there for the second.
	update(t, first.object, func(lns *v1alpha1.LockNamespace) { records("100Ki")(&lns.Spec) })
	first.reconcile()
	second.reconcile()
	second.wantCondition(v1alpha1.ConditionRecordsGranted, metav1.ConditionTrue, v1alpha1.ReasonGranted)
	events := strings.Join(b.events(), "\n")
	if strings.Count(events, v1alpha1.ReasonRecordMemoryExhausted) != 2 {
		t.Errorf("events: %s", events)
	}
}

func TestRecordsThatCannotBeHadAreToldAndLocksAreReady(t *testing.T) {
	none := int32(0)
	for reason, ask := range map[string]func(b *bench) *application{
		v1alpha1.ReasonNeedsRedis: func(b *bench) *application { return b.application(b.namespace, "billing", records("1Mi")) },
		v1alpha1.ReasonRecordMemoryUnknown: func(b *bench) *application {
			instance, _ := b.redis()
			return b.application(b.namespace, "billing", on(instance), records("1Mi"))
		},
		v1alpha1.ReasonRecordsForbidden: func(b *bench) *application {
			instance, _ := b.limited(func(spec *v1alpha1.RedisInstanceSpec) { spec.Limits.RecordMemoryPercent = &none })
			return b.application(b.namespace, "billing", on(instance), records("1Mi"))
		},
		v1alpha1.ReasonRecordsUnsupported: func(b *bench) *application {
			environment.Create(b.t, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "app", Labels: map[string]string{redisinstance.LabelCredentials: "true"}},
				StringData: map[string]string{"username": "everybody", "password": "everybody's"},
			})
			instance, _ := b.limited(func(spec *v1alpha1.RedisInstanceSpec) {
				spec.External.ACLManagement = v1alpha1.ACLManagementStatic
				spec.External.TenantCredentials = &v1alpha1.TenantCredentials{SecretName: "app"}
			})
			return b.application(b.namespace, "billing", on(instance), records("1Mi"))
		},
	} {
		t.Run(reason, func(t *testing.T) {
			b := newBench(t)
			a := ask(b)
			a.reconcile()
			a.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
			a.wantCondition(v1alpha1.ConditionRecordsGranted, metav1.ConditionFalse, reason)
			if a.object.Status.IdempotencyRecords != nil {
				t.Error("a share is recorded")
			}
			if redis := a.binding().Redis; redis != nil && redis.Records != nil {
				t.Error("the Secret tells of records")
			}
			a.wantNoWrites()
		})
	}
	b := newBench(t)
	a := b.application(b.namespace, "billing", records("1Mi"), func(spec *v1alpha1.LockNamespaceSpec) {
		spec.InstanceRef = &v1alpha1.InstanceReference{Name: "nothing"}
	})
	a.wantRefused(v1alpha1.ReasonInstanceNotFound)
	a.wantCondition(v1alpha1.ConditionRecordsGranted, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted)
}

// Wherever the operator ends, the next one brings the records, and takes them away.
func TestRecordsAndAnOperatorThatEnds(t *testing.T) {
	b := newBench(t)
	instance, server := b.limited()
	a := b.application(b.namespace, "billing", on(instance))
	a.reconcile()
	a.wantReady()
	points := 0
	for _, want := range []*v1alpha1.IdempotencyRecords{{Memory: quantity("1Mi"), MaxResponseSize: quantity("8Ki")}, nil} {
		for n := 0; ; n++ {
			other := &v1alpha1.IdempotencyRecords{Memory: quantity("1Mi"), MaxResponseSize: quantity("8Ki")}
			if want != nil {
				other = nil
			}
			update(t, a.object, func(lns *v1alpha1.LockNamespace) { lns.Spec.IdempotencyRecords = other })
			a.reconcile()
			update(t, a.object, func(lns *v1alpha1.LockNamespace) { lns.Spec.IdempotencyRecords = want })
			b.crash.after(n)
			_, err := a.try()
			crashed := b.crash.happened()
			b.restart(types.NamespacedName{})
			if crashed != (err != nil) {
				t.Fatalf("crashed: %v, error: %v", crashed, err)
			}
			points++
			b.examine(instance)
			a.reconcile()
			a.wantReady()
			if want == nil {
				a.wantNoRecords(server)
			} else if _, err := a.keep(server, 100); err != nil {
				t.Fatalf("after an end at point %d: %v", n, err)
			}
			b.examine(instance)
			a.reconcile()
			a.wantNoWrites()
			if !crashed {
				break
			}
		}
	}
	if points < 10 {
		t.Errorf("only %d points", points)
	}
}

func TestRecordsGoWithTheLockNamespace(t *testing.T) {
	b := newBench(t)
	instance, server := b.limited()
	a := b.application(b.namespace, "billing", on(instance), records("1Mi"))
	stays := b.application(b.namespace, "stays", on(instance), records("1Mi"))
	for _, app := range []*application{a, stays} {
		app.reconcile()
		if _, err := app.keep(server, 100); err != nil {
			t.Fatal(err)
		}
	}
	store, user, prefix := a.store(server), a.object.Status.Username, a.object.Status.Prefix
	remove(t, a.object)
	b.examine(instance)
	if slices.Contains(b.users(server), user) {
		t.Error("the user is still there")
	}
	if keys := server.Admin(t).Keys(t.Context(), prefix+"!records*").Val(); len(keys) > 0 {
		t.Errorf("left over: %v", keys)
	}
	if _, err := store.Get(t.Context(), idempotency.Key{}); err == nil {
		t.Error("its connection still reads records")
	}
	if instance.Status.RecordMemory.Granted.Value() != 1<<20 {
		t.Errorf("%s are granted", instance.Status.RecordMemory.Granted)
	}
	if _, err := stays.keep(server, 100); err != nil {
		t.Errorf("the other: %v", err)
	}
	// One that is made anew gets a share of its own. No garbage collector runs here.
	remove(t, a.secret())
	again := b.application(b.namespace, "billing", on(instance), records("1Mi"))
	again.reconcile()
	if _, err := again.keep(server, 100); err != nil {
		t.Fatal(err)
	}
	b.examine(instance)
	if _, err := again.keep(server, 100); err != nil {
		t.Fatal(err)
	}
	// Access that is taken back takes the records along.
	update(t, instance, func(i *v1alpha1.RedisInstance) {
		i.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesSelector, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"no": "body"}}}
	})
	again.wantRefused(v1alpha1.ReasonNotAllowedByInstance)
	again.wantCondition(v1alpha1.ConditionRecordsGranted, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted)
	b.examine(instance)
	if keys := server.Admin(t).Keys(t.Context(), prefix+"!records*").Val(); len(keys) > 0 {
		t.Errorf("left over after the access was taken back: %v", keys)
	}
	update(t, instance, func(i *v1alpha1.RedisInstance) {
		i.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesAll}
	})
	b.examine(instance)
	again.reconcile()
	again.wantReady()
	if _, err := again.keep(server, 100); err != nil {
		t.Errorf("with the access back: %v", err)
	}
}

func TestASharerHasNoPartInRecords(t *testing.T) {
	b := newBench(t)
	instance, server := b.limited()
	owner := b.application(b.namespace, "shop", on(instance), records("1Mi"), func(spec *v1alpha1.LockNamespaceSpec) {
		spec.ShareWith = []v1alpha1.ShareGrant{{Namespace: b.namespace}}
	})
	owner.reconcile()
	owner.wantReady()
	key, err := owner.keep(server, 100)
	if err != nil {
		t.Fatal(err)
	}
	sharer := b.application(b.namespace, "nightly", func(spec *v1alpha1.LockNamespaceSpec) {
		spec.ShareFrom = &v1alpha1.LockNamespaceReference{Namespace: b.namespace, Name: "shop"}
	})
	sharer.reconcile()
	sharer.wantReady()
	var refused *redisstore.NotGrantedError
	if _, err := sharer.keep(server, 100); !errors.As(err, &refused) {
		t.Errorf("the sharer: %v", err)
	}
	b.examine(instance)
	if record, err := owner.store(server).Get(t.Context(), key); err != nil || record.State != idempotency.Done {
		t.Errorf("the owner's record is %s, %v", record.State, err)
	}
}
