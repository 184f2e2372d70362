// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore/recordproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// grantRecords does what the locknamespace controller does for a share.
func (a *application) grantRecords(share string) {
	a.t.Helper()
	memory, response := resource.MustParse(share), resource.MustParse("8Ki")
	a.setStatus(func(status *v1alpha1.LockNamespaceStatus) {
		status.IdempotencyRecords = &v1alpha1.IdempotencyRecords{Memory: &memory, MaxResponseSize: &response}
	})
	tenant, limits := a.tenant(), redisinstance.RecordLimits(a.namespace.Status.IdempotencyRecords)
	tenant.Records = &limits
	if _, err := a.tenants.Program(a.t.Context(), a.instance, tenant); err != nil {
		a.t.Fatal(err)
	}
	a.setStatus(func(status *v1alpha1.LockNamespaceStatus) {
		status.Binding = &v1alpha1.BindingReference{Name: a.namespace.Name + "-lock"}
	})
}

// keep makes a record with the tenant's credentials.
func (a *application) keep(server *redistest.Server, size int) error {
	a.t.Helper()
	store, err := redisstore.OnLockServer(a.redis(server), a.tenant().Prefix)
	if err != nil {
		a.t.Fatal(err)
	}
	var key idempotency.Key
	_, _ = rand.Read(key[:])
	owner := idempotency.Ownership{Owner: rand.Text()}
	if _, err := store.Begin(a.t.Context(), key, idempotency.Claim{Ownership: owner, Lease: time.Minute, Retention: time.Hour}); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	return store.Complete(a.t.Context(), key, owner, idempotency.Result{State: idempotency.Done, Response: make([]byte, size), Retention: time.Hour})
}

// fill sets the upper limit of the server's memory so that percent of it are in use. Beside the filling the connections do not count.
func fill(t *testing.T, server *redistest.Server, percent uint64) {
	t.Helper()
	run(t, server, "SETRANGE", "filling", 64<<20, "x")
	var used uint64
	for line := range strings.Lines(server.Admin(t).Info(t.Context(), "memory").Val()) {
		_, _ = fmt.Sscanf(line, "used_memory:%d", &used)
	}
	if used == 0 {
		t.Fatal("the server does not tell its memory")
	}
	run(t, server, "CONFIG", "SET", "maxmemory", used*100/percent)
}

// gauges are the metrics of the RedisInstance, by their names.
func (b *bench) gauges() map[string]float64 {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if labels := metric.GetLabel(); len(labels) != 1 || labels[0].GetValue() != b.namespace+"/locks" {
				b.t.Errorf("%s has the labels %v", family.GetName(), labels)
			}
			values[family.GetName()] = metric.GetGauge().GetValue()
		}
	}
	return values
}

func TestMetricsTellOfRecords(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	if got := b.gauges(); len(got) != 2 || got["lockstead_redisinstance_record_granted_bytes"] != 0 {
		t.Errorf("without maxmemory: %v", got)
	}
	run(t, server, "CONFIG", "SET", "maxmemory", "100mb")
	b.reconcile()
	first, second := b.application("first"), b.application("second")
	first.grantRecords("1Mi")
	second.grantRecords("2Mi")
	for _, a := range []*application{first, second} {
		if err := a.keep(server, 100); err != nil {
			t.Fatal(err)
		}
	}
	b.reconcile()
	want := map[string]float64{
		"lockstead_redisinstance_record_bytes": 2 * 1216, "lockstead_redisinstance_record_granted_bytes": 3 << 20, "lockstead_redisinstance_record_capacity_bytes": 50 << 20,
	}
	if got := b.gauges(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := environment.Admin.Delete(t.Context(), b.instance); err != nil {
		t.Fatal(err)
	}
	if _, err := b.controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: named(b.namespace, "locks")}); err != nil {
		t.Fatal(err)
	}
	if got := b.gauges(); len(got) != 0 {
		t.Errorf("of a RedisInstance that is gone: %v", got)
	}
}

func TestRecordsAreStoppedBeforeLocksAre(t *testing.T) {
	b, server := externalBench(t)
	run(t, server, "CONFIG", "SET", "maxmemory", "1gb")
	b.reconcile()
	a := b.application("billing")
	a.grantRecords("1Mi")
	b.reconcile()
	b.wantReady()
	if err := a.keep(server, 100); err != nil {
		t.Fatal(err)
	}
	b.wantNoWrites()
	steps := []struct {
		percent uint64
		stopped bool
	}{{70, false}, {84, true}, {77, true}, {70, false}, {77, false}}
	for i, step := range steps {
		fill(t, server, step.percent)
		b.reconcile()
		err := a.keep(server, 100)
		if step.stopped {
			message := b.wantCondition(v1alpha1.ConditionLockSafe, metav1.ConditionFalse, v1alpha1.ReasonRecordsStopped).Message
			if full, ok := errors.AsType[*idempotency.StoreFullError](err); !ok || full.Share != 0 || !strings.Contains(message, "Locks are granted") {
				t.Errorf("at %d %%: %v, message %q", step.percent, err, message)
			}
		} else if b.wantReady(); err != nil {
			t.Errorf("at %d %%: %v", step.percent, err)
		}
		if got := a.acquire(server, fmt.Sprint("key-", i)); got != fmt.Sprint(b.instance.Status.Epoch) {
			t.Errorf("at %d %% a lock is answered with %s", step.percent, got)
		}
		b.wantNoWrites()
	}
	// Fuller than that it is told for the locks.
	run(t, server, "CONFIG", "SET", "maxmemory", "1gb")
	fill(t, server, 95)
	b.reconcile()
	b.wantCondition(v1alpha1.ConditionLockSafe, metav1.ConditionFalse, v1alpha1.ReasonMemoryNearlyFull)
	if err := a.keep(server, 100); !errors.Is(err, idempotency.ErrStoreFull) {
		t.Errorf("at 95 %%: %v", err)
	}
	if err := server.Admin(t).ConfigSet(t.Context(), "maxmemory", "1gb").Err(); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.wantReady()
}

func TestAServerWithoutRecordsIsNotStopped(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	b.application("billing").program()
	fill(t, server, 84)
	b.reconcile()
	b.wantReady()
	if n := server.Admin(t).Exists(t.Context(), recordproto.PartKey("lk"), recordproto.IndexKey("lk")).Val(); n != 0 {
		t.Error("keys for records were made where nobody asked for records")
	}
	if libraries := fmt.Sprint(server.Admin(t).Do(t.Context(), "FUNCTION", "LIST", "LIBRARYNAME", recordproto.LibraryName).Val()); libraries != "[]" {
		t.Errorf("the library of records was loaded: %s", libraries)
	}
}

func TestSharesBeyondTheCapacityAreCutDown(t *testing.T) {
	b, server := externalBench(t)
	run(t, server, "CONFIG", "SET", "maxmemory", "100mb")
	b.reconcile()
	first, second := b.application("first"), b.application("second")
	first.grantRecords("3Mi")
	second.grantRecords("1Mi")
	b.reconcile()
	b.wantReady()
	limit := func(percent int32) {
		t.Helper()
		environment.Get(t, b.instance)
		b.instance.Spec.Limits.RecordMemoryPercent = &percent
		if err := environment.Admin.Update(t.Context(), b.instance); err != nil {
			t.Fatal(err)
		}
		b.reconcile()
	}
	limit(2)
	message := b.wantCondition(v1alpha1.ConditionLockSafe, metav1.ConditionFalse, v1alpha1.ReasonRecordSharesTooLarge).Message
	if !strings.Contains(message, "500 of every 1000") || !strings.Contains(message, "4194304") {
		t.Errorf("message is %q", message)
	}
	var err error
	for range 1000 {
		if err = second.keep(server, 8<<10); err != nil {
			break
		}
	}
	if full, ok := errors.AsType[*idempotency.StoreFullError](err); !ok || full.Share != 512<<10 {
		t.Errorf("the share that was cut is answered with %v", err)
	}
	if got := second.acquire(server, "key"); got != fmt.Sprint(b.instance.Status.Epoch) {
		t.Errorf("a lock is answered with %s", got)
	}
	b.wantNoWrites()
	limit(0)
	b.wantCondition(v1alpha1.ConditionLockSafe, metav1.ConditionFalse, v1alpha1.ReasonRecordSharesTooLarge)
	if err := first.keep(server, 100); !errors.Is(err, idempotency.ErrStoreFull) {
		t.Errorf("with no part for records: %v", err)
	}
	limit(50)
	b.wantReady()
	for _, a := range []*application{first, second} {
		if err := a.keep(server, 8<<10); err != nil {
			t.Errorf("with the whole share: %v", err)
		}
	}
}

func TestWhatIsDeletedByHandComesBack(t *testing.T) {
	b, server := externalBench(t)
	run(t, server, "CONFIG", "SET", "maxmemory", "100mb")
	b.reconcile()
	a := b.application("billing")
	a.grantRecords("1Mi")
	b.reconcile()
	prefix := a.tenant().Prefix
	for name, command := range map[string][]any{
		"the limits":      {"DEL", recordproto.LimitsKey(prefix)},
		"the part":        {"DEL", recordproto.PartKey("lk")},
		"a part of else":  {"SET", recordproto.PartKey("lk"), "much"},
		"the index":       {"DEL", recordproto.IndexKey("lk")},
		"the library":     {"FUNCTION", "DELETE", recordproto.LibraryName},
		"the records":     {"DEL", recordproto.RecordsKey(prefix), recordproto.EndsKey(prefix)},
		"the list alone":  {"DEL", recordproto.EndsKey(prefix)},
		"records of else": {"SET", recordproto.RecordsKey(prefix), "x"},
	} {
		if err := a.keep(server, 100); err != nil {
			t.Fatalf("before %s: %v", name, err)
		}
		run(t, server, command...)
		b.reconcile()
		b.reconcile() // What is granted anew is swept at the next look.
		b.wantReady()
		if err := a.keep(server, 100); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		use := server.Admin(t).HGet(t.Context(), recordproto.RecordsKey(prefix), "!used").Val()
		if use == "" || strings.HasPrefix(use, "-") {
			t.Errorf("%s: %q bytes are charged", name, use)
		}
		b.wantNoWrites()
	}
}

// As before an upgrade: an administrator's user that was given what locks need.
func TestAnAdministratorWithoutRightsForRecordsKeepsLocks(t *testing.T) {
	b, server := externalBench(t)
	run(t, server, "CONFIG", "SET", "maxmemory", "100mb")
	words := []any{"ACL", "SETUSER", "operator", "on", ">word", "~*", "&*", "+@all"}
	for _, command := range []string{"hget", "hgetall", "hset", "hdel", "hlen", "zadd", "unlink"} {
		words = append(words, "-"+command)
	}
	run(t, server, words...)
	secret := b.getSecret("admin")
	secret.Data = map[string][]byte{"username": []byte("operator"), "password": []byte("word")}
	if err := environment.Admin.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.wantReady()
	a := b.application("billing")
	a.program()
	b.reconcile()
	b.wantReady()
	if got := a.acquire(server, "key"); got != fmt.Sprint(b.instance.Status.Epoch) {
		t.Errorf("a lock is answered with %s", got)
	}
	tenant := a.tenant()
	tenant.Records = &recordproto.Limits{Share: 1 << 20, MaxResponse: 1 << 10}
	_, err := a.tenants.Program(t.Context(), a.instance, tenant)
	if _, ok := errors.AsType[*redisinstance.RefusedError](err); !ok {
		t.Errorf("a share that cannot be granted: %v", err)
	}
	b.reconcile()
	b.wantReady()
}

func TestRecordsOfAnotherInstanceOfTheServerStay(t *testing.T) {
	b, server := externalBench(t)
	run(t, server, "CONFIG", "SET", "maxmemory", "100mb")
	b.reconcile()
	a := b.application("billing")
	a.grantRecords("1Mi")
	// A holder that another RedisInstance has made, whose LockNamespace this one's cluster does not have.
	const holder, prefix = "lk-0123456789ab", "lk:{else/where}:"
	run(t, server, "ACL", "SETUSER", holder, "on", ">x", redisadmin.UserMark("lk", "another-uid"))
	run(t, server, "FCALL", recordproto.FunctionGrant, 1, recordproto.RecordsKey(prefix), "1 1", holder)
	b.reconcile()
	if n := server.Admin(t).Exists(t.Context(), recordproto.LimitsKey(prefix), recordproto.LimitsKey(a.tenant().Prefix)).Val(); n != 1 && n != 2 {
		t.Errorf("%d of the limits are there", n)
	}
	if err := a.keep(server, 100); err != nil {
		t.Error(err)
	}
}
