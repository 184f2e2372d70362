// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

func (b *bench) wantUsers(status metav1.ConditionStatus, reason, count string) {
	b.t.Helper()
	if condition := b.wantCondition(v1alpha1.ConditionACLProgrammed, status, reason); !strings.HasPrefix(condition.Message, count+" ") {
		b.t.Errorf("message is %q, want %s", condition.Message, count)
	}
}

func TestUsersAreCounted(t *testing.T) {
	b, _ := externalBench(t)
	b.reconcile()
	b.wantUsers(metav1.ConditionTrue, v1alpha1.ReasonUsersProgrammed, "0 of 0")
	first, second, refused := b.application("first"), b.application("second"), b.application("refused")
	refused.setStatus(func(status *v1alpha1.LockNamespaceStatus) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotAllowedByInstance,
		})
	})
	b.reconcile()
	b.wantUsers(metav1.ConditionFalse, v1alpha1.ReasonUsersPending, "0 of 2")
	first.program()
	b.reconcile()
	b.wantUsers(metav1.ConditionFalse, v1alpha1.ReasonUsersPending, "1 of 2")
	b.wantNoWrites()
	second.program()
	b.reconcile()
	b.wantUsers(metav1.ConditionTrue, v1alpha1.ReasonUsersProgrammed, "2 of 2")
}

// One that shares has a user that is limited to the keys of the owner.
func TestUsersOfThoseWhoShareAreCounted(t *testing.T) {
	b, _ := externalBench(t)
	b.reconcile()
	owner := b.application("owner", func(spec *v1alpha1.LockNamespaceSpec) { spec.Prefix = "stock" })
	guest := b.application("guest", func(spec *v1alpha1.LockNamespaceSpec) {
		spec.ShareFrom = &v1alpha1.LockNamespaceReference{Namespace: b.namespace, Name: "owner"}
	})
	for _, a := range []*application{owner, guest} {
		a.setStatus(func(status *v1alpha1.LockNamespaceStatus) { status.Prefix = redisproto.Prefix("lk", "stock") })
		a.program()
	}
	b.reconcile()
	b.wantUsers(metav1.ConditionTrue, v1alpha1.ReasonUsersProgrammed, "2 of 2")
	if err := environment.Admin.Delete(t.Context(), owner.namespace); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.wantUsers(metav1.ConditionTrue, v1alpha1.ReasonUsersProgrammed, "0 of 0")
}

func TestAUserThatSomebodyChanged(t *testing.T) {
	edits := map[string][]any{
		"more rights": {"+keys", "~*"},
		"no password": {"nopass"},
		"off":         {"off"},
		"a selector":  {"(+@all ~*)"},
	}
	t.Run("managed", func(t *testing.T) {
		b, server := managedBench(t)
		a := b.application("billing")
		a.program()
		for name, edit := range edits {
			run(t, server, append([]any{"ACL", "SETUSER", a.tenant().Username}, edit...)...)
			b.reconcile()
			b.wantUsers(metav1.ConditionTrue, v1alpha1.ReasonUsersProgrammed, "1 of 1")
			want := redisproto.User{
				Name: a.tenant().Username, PasswordHashes: []string{redisproto.PasswordHash(a.password)},
				Rules: append(redisproto.TenantRules(a.tenant().Prefix, "functions"), redisadmin.UserMark("lk", string(b.instance.UID))),
			}
			admin, err := redisadmin.NewConnector(nil).Connect(t.Context(), redisadmin.Target{Address: server.Addr(), Username: "admin", Password: server.AdminPassword()})
			if err != nil {
				t.Fatal(err)
			}
			if got, _, err := admin.GetUser(t.Context(), want.Name); err != nil || !got.Matches(want) {
				t.Errorf("%s: the user is %+v, %v", name, got, err)
			}
			admin.Close()
		}
	})
	t.Run("external", func(t *testing.T) {
		b, server := externalBench(t)
		b.reconcile()
		a := b.application("billing")
		a.program()
		for name, edit := range edits {
			run(t, server, append([]any{"ACL", "SETUSER", a.tenant().Username}, edit...)...)
			b.reconcile()
			b.wantUsers(metav1.ConditionFalse, v1alpha1.ReasonUsersPending, "0 of 1")
			b.wantNoWrites()
			a.program() // As the controller of LockNamespaces does when the status of the RedisInstance changes.
			b.reconcile()
			b.wantUsers(metav1.ConditionTrue, v1alpha1.ReasonUsersProgrammed, "1 of 1")
			if err := a.redis(server).Keys(t.Context(), "*").Err(); err == nil {
				t.Errorf("%s: the user has too many rights", name)
			}
		}
	})
}

func TestUsersOfRedisInstancesThatAreGoneAreSwept(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	neighbour := &v1alpha1.RedisInstance{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "neighbour"}, Spec: external()}
	environment.Create(t, neighbour)
	for name, mark := range map[string]string{
		"lk-orphan": redisadmin.UserMark("lk", "00000000-0000-0000-0000-000000000000"), "lk-neighbour": redisadmin.UserMark("lk", string(neighbour.UID)),
		"lk-people": "~lk:!user", "people": redisadmin.UserMark("lk", "00000000-0000-0000-0000-000000000000"),
	} {
		run(t, server, "ACL", "SETUSER", name, "on", ">x", mark)
	}
	b.reconcile()
	users, err := server.Admin(t).Do(t.Context(), "ACL", "USERS").StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"lk-orphan": false, "lk-neighbour": true, "lk-people": true, "people": true} {
		if slices.Contains(users, name) != want {
			t.Errorf("user %s is there: %t", name, !want)
		}
	}
}

func TestARedisInstanceThatGoesTakesItsUsersFromAnExternalServer(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	a := b.application("billing")
	a.program()
	run(t, server, "ACL", "SETUSER", "lk-people", "on", ">x")
	gone := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.instance)}
	if err := environment.Admin.Delete(t.Context(), b.instance); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if result, err := b.controller.Reconcile(t.Context(), gone); err != nil || result != (reconcile.Result{}) {
			t.Errorf("result %v, %v", result, err)
		}
	}
	users, err := server.Admin(t).Do(t.Context(), "ACL", "USERS").StringSlice()
	if err != nil || slices.Contains(users, a.tenant().Username) || !slices.Contains(users, "lk-people") {
		t.Errorf("users are %v, %v", users, err)
	}
}

// A server of somebody else forgets its users when it restarts, and may lose locks. What it kept can be renewed during the quarantine.
func TestHoldersRenewDuringAQuarantine(t *testing.T) {
	b, server := externalBench(t, "appendfsync everysec")
	b.reconcile()
	a := b.application("billing")
	a.program()
	b.reconcile()
	if got := a.acquire(server, "key"); strings.ContainsAny(got, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t.Fatal(got)
	}
	server.Stop(t) // In good order, so that it has the lock for certain.
	server.Run(t)
	program := func() {
		t.Helper()
		if _, err := b.tenants.Program(t.Context(), b.instance, a.tenant()); !errors.Is(err, redisinstance.ErrNotAvailable) {
			t.Fatalf("error is %v", err)
		}
	}
	program()
	if err := a.redis(server).Ping(t.Context()).Err(); err == nil {
		t.Error("the user was made before the server was examined")
	}
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonQuarantined)
	b.wantUsers(metav1.ConditionFalse, v1alpha1.ReasonUsersPending, "0 of 1")
	program()
	prefix := a.tenant().Prefix
	lock := redisproto.LockKey(prefix, "key")
	record, err := server.Admin(t).Get(t.Context(), lock).Result()
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := a.redis(server).FCall(t.Context(), redisproto.FunctionRenew, []string{lock, redisproto.SequenceKey(prefix)},
		record[:32], time.Minute.Milliseconds()).Int()
	if err != nil || renewed != 1 {
		t.Errorf("renewal during the quarantine: %d, %v", renewed, err)
	}
	if got := a.acquire(server, "other"); got != redisproto.CodeNotArmed {
		t.Errorf("acquire during the quarantine: %s", got)
	}
	b.reconcile()
	b.wantUsers(metav1.ConditionTrue, v1alpha1.ReasonUsersProgrammed, "1 of 1")
	b.wantUnavailable(v1alpha1.ReasonQuarantined)
}
