// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

var update = flag.Bool("update", false, "write the golden files anew")

// wantGolden compares what is printed with a file of testdata.
func wantGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./internal/kubectl -update writes it anew); got:\n%s", path, got)
	}
}

// now is when the golden files were printed.
var now = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func someLocks() []heldLock {
	billing := &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: "payments", Name: "billing"}}
	billing.Status.Backend = v1alpha1.BackendRedis
	jobs := &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: "jobs", Name: "nightly"}}
	jobs.Status.Backend = v1alpha1.BackendLease
	holding := func(owner string, sequence uint64, since, remaining time.Duration) driver.Holding {
		h := driver.Holding{Held: true, ID: strings.Repeat("0a", 16), Owner: owner, Token: driver.Token{Epoch: 1764500000, Sequence: sequence}, Remaining: remaining}
		if since > 0 {
			h.Since = now.Add(-since)
		}
		return h
	}
	locks := []heldLock{
		heldOf(billing, lock.HeldKey{Key: "order:17", Holding: holding("billing-6f7d9c-x2k4p/payments/pid-1", 42, 3*time.Minute, 27*time.Second)}),
		heldOf(billing, lock.HeldKey{Key: "order:\x1b[2J9", Holding: holding("", 7, 0, 0)}),
		heldOf(jobs, lock.HeldKey{Key: "report", Holding: holding("nightly-28001-abcde/jobs/pid-7", 9, 26*time.Hour, 15*time.Minute)}),
		// The clock of the store is ahead.
		heldOf(billing, lock.HeldKey{Key: "future", Holding: driver.Holding{Owner: "a/b/c", Since: now.Add(time.Second), Remaining: time.Second}}),
	}
	sortHeld(locks)
	return locks
}

func TestLocksInEveryForm(t *testing.T) {
	locks := someLocks()
	wantGolden(t, "locks", renderLocks(locks, false, now))
	wantGolden(t, "locks-wide", renderLocks(locks, true, now))
	for _, format := range []string{formatJSON, formatYAML} {
		var out strings.Builder
		list := lockList{typed: typed{outputVersion, "LockList"}, Locks: locks, Problems: []string{"cannot list the locks of LockNamespace a/b: it is down"}}
		if err := printDocument(&out, format, list); err != nil {
			t.Fatal(err)
		}
		wantGolden(t, "locks-"+format, out.String())
	}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 2}
}

func TestStatusInWords(t *testing.T) {
	good := &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: "payments", Name: "billing", Generation: 2}, Status: v1alpha1.LockNamespaceStatus{
		Backend: v1alpha1.BackendRedis, Prefix: "lk:{payments/billing}:", Binding: &v1alpha1.BindingReference{Name: "billing-lock"},
		InstanceRef: &v1alpha1.BoundInstance{Namespace: "lockstead-system", Name: "default"},
		Conditions:  []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "")},
	}}
	refused := &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: "payments", Name: "refused", Generation: 2}, Status: v1alpha1.LockNamespaceStatus{
		Conditions: []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotAllowedByInstance, "Ask the owner\nof the RedisInstance.")},
	}}
	unseen := &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: "payments", Name: "unseen", Generation: 2}}
	stale := good.DeepCopy()
	stale.Name, stale.Generation = "stale", 3
	instance := &v1alpha1.RedisInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "lockstead-system", Name: "default", Generation: 2}}
	instance.Spec.Mode = v1alpha1.ModeManaged
	instance.Status = v1alpha1.RedisInstanceStatus{
		Epoch: 1764500000, LockNamespaces: 2, Server: &v1alpha1.ServerInfo{Engine: "Valkey", Version: "8.1.1"},
		Endpoint: &v1alpha1.Endpoint{Host: "default-redis.lockstead-system.svc", Port: 6379},
		Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, ""),
			condition(v1alpha1.ConditionLockSafe, metav1.ConditionFalse, v1alpha1.ReasonMemoryNearlyFull, "95 % of the memory is in use."),
			condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Stable", "Nothing is under way."),
			condition(v1alpha1.ConditionTLSReady, metav1.ConditionTrue, v1alpha1.ReasonCertificateExpiresSoon, "It ends in 3 days."),
		},
	}
	o := overview{
		typed:          typed{outputVersion, "Status"},
		Operators:      []operatorState{{Namespace: "lockstead-system", Name: "lockstead", Ready: 1, Wanted: 2, Image: "example.com/lockstead:1.0"}},
		RedisInstances: []instanceState{instanceStateOf(instance)},
	}
	for _, lns := range []*v1alpha1.LockNamespace{good, refused, unseen, stale} {
		o.LockNamespaces = append(o.LockNamespaces, tenantStateOf(lns))
	}
	wantGolden(t, "status", renderOverview(o, "namespace payments", false))
	wantGolden(t, "status-wide", renderOverview(o, "namespace payments", true))
	wantGolden(t, "status-empty", renderOverview(overview{}, "all namespaces", false))
	wantGolden(t, "status-unread", renderOverview(overview{Unread: []string{"RedisInstance a/b", "the operator (no right)"}}, "namespace payments", false))
	var out strings.Builder
	if err := printDocument(&out, formatYAML, o); err != nil {
		t.Fatal(err)
	}
	wantGolden(t, "status-yaml", out.String())
}
