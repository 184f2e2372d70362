// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// managedBench is one with a running managed server.
func managedBench(t *testing.T) (*bench, *redistest.Server) {
	t.Helper()
	b := newBench(t, managed())
	b.reconcile()
	server := b.startPod()
	b.reconcile()
	b.wantReady()
	b.events()
	return b, server
}

func run(t *testing.T, server *redistest.Server, command ...any) {
	t.Helper()
	if err := server.Admin(t).Do(t.Context(), command...).Err(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

func TestSettingsOfAManagedServerThatSomebodyChangedArePutRight(t *testing.T) {
	b, server := managedBench(t)
	right := server.Admin(t).ConfigGet(t.Context(), "*").Val()
	for name, tc := range map[string]struct {
		commands [][]any
		reason   string
		says     []string
	}{
		"eviction": {
			[][]any{{"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"}}, v1alpha1.ReasonEvictionPolicyWrong,
			[]string{`maxmemory-policy was "allkeys-lru" and is "noeviction" again`},
		},
		"no file": {[][]any{{"CONFIG", "SET", "appendonly", "no"}}, v1alpha1.ReasonSettingsChanged, []string{`appendonly was "no"`}},
		"several": {
			[][]any{{"CONFIG", "SET", "maxmemory", "0", "appendfsync", "no", "min-replicas-to-write", "3"}}, v1alpha1.ReasonSettingsChanged,
			[]string{"maxmemory was", "appendfsync was", "min-replicas-to-write was"},
		},
		"default user":            {[][]any{{"ACL", "SETUSER", "default", "on", "nopass"}}, v1alpha1.ReasonDefaultUserOpen, []string{"closed again"}},
		"restricted default user": {[][]any{{"ACL", "SETUSER", "default", "-@all"}}, v1alpha1.ReasonDefaultUserRestricted, []string{"closed again"}},
		"default user's password": {[][]any{{"ACL", "SETUSER", "default", "on", ">x"}}, v1alpha1.ReasonSettingsChanged, []string{"default user could log in"}},
	} {
		for _, command := range tc.commands {
			run(t, server, command...)
		}
		result := b.reconcile()
		condition := b.wantCondition(v1alpha1.ConditionLockSafe, metav1.ConditionFalse, tc.reason)
		for _, text := range tc.says {
			if !strings.Contains(condition.Message, text) {
				t.Errorf("%s: message %q does not say %q", name, condition.Message, text)
			}
		}
		if result.RequeueAfter > 5*time.Second {
			t.Errorf("%s: the next look is in %s", name, result.RequeueAfter)
		}
		for setting, now := range server.Admin(t).ConfigGet(t.Context(), "*").Val() {
			if now != right[setting] {
				t.Errorf("%s: %s is %q, not %q", name, setting, now, right[setting])
			}
		}
		b.reconcile()
		b.wantReady()
		b.reconcile() // Once more, for an append-only file that was still being written.
		b.wantNoWrites()
		events := b.events()
		if warnings := slices.DeleteFunc(slices.Clone(events), func(e string) bool { return !strings.HasPrefix(e, "Warning "+tc.reason) }); len(warnings) != 1 {
			t.Errorf("%s: events are %q", name, events)
		}
	}
	if !slices.Contains(b.instance.Status.Capabilities, v1alpha1.CapabilityDurable) {
		t.Errorf("capabilities are %v", b.instance.Status.Capabilities)
	}
}

// While a new configuration is being rolled out, the pod of the old one is no pod that somebody changed.
func TestAPodThatIsBeingReplacedIsNotTakenForAChangedOne(t *testing.T) {
	b, server := managedBench(t)
	b.instance.Spec.Managed.Version = "7.0.1"
	if err := environment.Admin.Update(t.Context(), b.instance); err != nil {
		t.Fatal(err)
	}
	run(t, server, "CONFIG", "SET", "maxmemory", "50mb")
	b.reconcile()
	b.wantCondition(v1alpha1.ConditionLockSafe, metav1.ConditionTrue, v1alpha1.ReasonSafe)
	if got := server.Admin(t).ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"]; got != "52428800" {
		t.Errorf("maxmemory is %s", got)
	}
}

func TestAServerThatIsFullStillReleases(t *testing.T) {
	b, server := externalBench(t, "maxmemory 6mb")
	b.reconcile()
	a := b.application("billing")
	a.program()
	if got := a.acquire(server, "key"); strings.Contains(got, "OOM") {
		t.Fatal(got)
	}
	filler := strings.Repeat("x", 64<<10)
	for i := 0; ; i++ {
		if err := server.Admin(t).Append(t.Context(), "filler", filler).Err(); err != nil {
			if !strings.HasPrefix(err.Error(), "OOM") {
				t.Fatal(err)
			}
			break
		}
	}
	b.reconcile()
	condition := b.wantCondition(v1alpha1.ConditionLockSafe, metav1.ConditionFalse, v1alpha1.ReasonMemoryNearlyFull)
	if !strings.Contains(condition.Message, "maxmemory") {
		t.Errorf("message is %q", condition.Message)
	}
	b.wantNoWrites()
	prefix := a.tenant().Prefix
	record, err := server.Admin(t).Get(t.Context(), redisproto.LockKey(prefix, "key")).Result()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := a.redis(server).FCall(t.Context(), redisproto.FunctionRelease, []string{redisproto.LockKey(prefix, "key")},
		record[:32], redisproto.Channel(prefix, "key")).Int()
	if err != nil || reply != 1 {
		t.Errorf("release on a full server: %d, %v", reply, err)
	}
	run(t, server, "DEL", "filler")
	b.reconcile()
	b.wantReady()
}

func TestTheOwnerOfAServerIsTheFirstCluster(t *testing.T) {
	b, server := externalBench(t)
	key := redisadmin.OwnerKey("lk")
	if err := server.Admin(t).Set(t.Context(), key, "another-cluster", 0).Err(); err != nil {
		t.Fatal(err)
	}
	before := appendOnlySize(t, server)
	b.reconcile()
	if message := b.wantUnavailable(v1alpha1.ReasonOwnedByAnotherOperator); !strings.Contains(message, key) || !strings.Contains(message, "another-cluster") {
		t.Errorf("message is %q", message)
	}
	b.wantNoWrites()
	if after := appendOnlySize(t, server); after != before {
		t.Errorf("%d bytes were written to a server of somebody else", after-before)
	}
	a := b.application("billing")
	if _, err := b.tenants.Program(t.Context(), b.instance, a.tenant()); !errors.Is(err, redisinstance.ErrNotAvailable) {
		t.Errorf("a tenant was programmed: %v", err)
	}
	run(t, server, "DEL", key)
	b.reconcile()
	b.wantReady()
	if owner := server.Admin(t).Get(t.Context(), key).Val(); owner == "" || owner == "another-cluster" {
		t.Errorf("the owner is %q", owner)
	}
}

func TestASecretIsSentOnlyWithItsOwnersConsent(t *testing.T) {
	b, _ := externalBench(t)
	secret := b.getSecret("admin")
	secret.Labels = nil
	if err := environment.Admin.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	b.address = "" // Nobody may be asked.
	b.reconcile()
	command := "kubectl -n " + b.namespace + " label secret admin lockstead.dev/credentials=true"
	if message := b.wantUnavailable(v1alpha1.ReasonCredentialsInvalid); !strings.Contains(message, command) {
		t.Errorf("message is %q", message)
	}
}

func TestProgramAsksNoServerThatIsKnownNotToAnswer(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	a := b.application("billing")
	a.program()
	b.address = ""
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonUnreachable)
	b.address = server.Addr()
	run(t, server, "ACL", "DELUSER", a.tenant().Username)
	if _, err := b.tenants.Program(t.Context(), b.instance, a.tenant()); !errors.Is(err, redisinstance.ErrNotAvailable) {
		t.Errorf("error is %v", err)
	}
	if users := server.Admin(t).Do(t.Context(), "ACL", "USERS").String(); strings.Contains(users, a.tenant().Username) {
		t.Error("the server was asked")
	}
	b.reconcile()
	a.program()
}
