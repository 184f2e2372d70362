// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func TestExternalServerIsAdministered(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	b.wantReady()
	if b.instance.Status.Endpoint.Host != "redis.example.com" || b.instance.Status.Epoch == 0 {
		t.Errorf("status is %+v", b.instance.Status)
	}
	a := b.application("billing")
	a.program()
	if got := a.acquire(server, "key"); got != fmt.Sprint(b.instance.Status.Epoch) {
		t.Errorf("acquire: %s", got)
	}
	b.reconcile()
	size := appendOnlySize(t, server)
	b.wantNoWrites()
	b.writes.Reset()
	a.program()
	if sent := b.writes.Sent(); len(sent) > 0 {
		t.Errorf("programming again sent %v", sent)
	}
	if again := appendOnlySize(t, server); again != size {
		t.Errorf("the second time wrote %d bytes to the server", again-size)
	}
	b.events()
	for _, password := range []string{server.AdminPassword(), a.password} {
		if strings.Contains(b.told.String(), password) {
			t.Error("a password was told")
		}
	}
}

func TestEpochIsNeverLowerThanTheClock(t *testing.T) {
	b, _ := externalBench(t)
	b.reconcile()
	first := b.instance.Status.Epoch
	if first < b.clock.Now().Unix() {
		t.Errorf("the epoch %d is lower than the clock", first)
	}
	// A new object for the same server.
	if err := environment.Admin.Delete(t.Context(), b.instance); err != nil {
		t.Fatal(err)
	}
	b.instance = &v1alpha1.RedisInstance{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "locks"}, Spec: external()}
	environment.Create(t, b.instance)
	b.reconcile()
	b.wantReady()
	if b.instance.Status.Epoch <= first {
		t.Errorf("the epoch of the new object is %d, not above %d", b.instance.Status.Epoch, first)
	}
}

// wantQuarantine goes through a quarantine after a loss.
func (b *bench) wantQuarantine(server *redistest.Server, a *application, whileWaiting string) {
	b.t.Helper()
	epoch := b.instance.Status.Epoch
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonQuarantined)
	if b.instance.Status.Epoch <= epoch || b.instance.Status.QuarantineUntil == nil ||
		b.instance.Status.QuarantineUntil.Before(&metav1.Time{Time: b.clock.Now().Add(time.Hour)}) {
		b.t.Errorf("status after the loss is %+v", b.instance.Status)
	}
	if events := strings.Join(b.events(), "\n"); !strings.Contains(events, "DataMayBeLost") || !strings.Contains(events, "Quarantined") {
		b.t.Errorf("events are %s", events)
	}
	b.wantNoWrites()
	if events := b.events(); len(events) > 0 {
		b.t.Errorf("events while it waits: %q", events)
	}
	if _, err := b.tenants.Program(b.t.Context(), b.instance, a.tenant()); !errors.Is(err, redisinstance.ErrNotAvailable) {
		b.t.Errorf("a tenant was programmed during the quarantine: %v", err)
	}
	if got := a.acquire(server, "after"); got != whileWaiting {
		b.t.Errorf("acquire during the quarantine: %s", got)
	}
	b.pass(time.Hour)
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonQuarantined)
	b.pass(time.Second)
	raised := b.instance.Status.Epoch
	b.reconcile()
	b.wantReady()
	if b.instance.Status.Epoch != raised || b.instance.Status.QuarantineUntil != nil {
		b.t.Errorf("status after the quarantine is %+v", b.instance.Status)
	}
	a.program()
	if got := a.acquire(server, "after"); got != fmt.Sprint(raised) {
		b.t.Errorf("acquire after the quarantine: %s, want epoch %d", got, raised)
	}
	b.wantNoWrites()
}

func TestNoClockThatIsSetShortensAQuarantine(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	if err := server.Admin(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonQuarantined)
	b.pass(30 * time.Minute)
	b.clock.Step(24 * time.Hour)
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonQuarantined)
	wantEnd := func(left time.Duration) {
		t.Helper()
		if off := b.instance.Status.QuarantineUntil.Sub(b.clock.Now().Add(left)); off.Abs() > 2*time.Second {
			t.Errorf("the status tells an end that is %s off", off)
		}
	}
	wantEnd(30 * time.Minute)
	b.wantNoWrites()
	// A process that takes over does not know how long it was, and waits for all of it.
	b.startOperator(environment.Manager)
	b.reconcile()
	wantEnd(time.Hour)
	b.pass(31 * time.Minute)
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonQuarantined)
	b.pass(30 * time.Minute)
	b.reconcile()
	b.wantReady()
}

func TestLostDataLeadToAQuarantineAndANewEpoch(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	a := b.application("billing")
	a.program()
	b.reconcile()
	b.events()
	server.Kill(t)
	server.RemoveData(t)
	server.Run(t)
	if got := a.acquire(server, "key"); got != "WRONGPASS" && got != "NOAUTH" {
		t.Errorf("an external server that restarted knows the tenant: %s", got)
	}
	if _, err := b.tenants.Program(t.Context(), b.instance, a.tenant()); !errors.Is(err, redisinstance.ErrNotAvailable) {
		t.Errorf("a tenant was programmed before the loss was examined: %v", err)
	}
	b.wantQuarantine(server, a, redisproto.CodeNoEpoch)
}

func TestAFlushOfTheSameRunIsALoss(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	a := b.application("billing")
	a.program()
	b.reconcile()
	b.events()
	if err := server.Admin(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if got := a.acquire(server, "key"); got != redisproto.CodeNoEpoch {
		t.Errorf("acquire after a flush: %s", got)
	}
	b.wantQuarantine(server, a, redisproto.CodeNoEpoch)
}

func TestOneRecordThatIsGoneIsALoss(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	a := b.application("billing")
	a.program()
	b.reconcile()
	b.events()
	if err := server.Admin(t).Del(t.Context(), redisproto.EpochKey(a.tenant().Prefix)).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tenants.Program(t.Context(), b.instance, a.tenant()); !errors.Is(err, redisinstance.ErrNotAvailable) {
		t.Errorf("the record was made again at once: %v", err)
	}
	b.wantQuarantine(server, a, redisproto.CodeNoEpoch)
}

func TestRestoredDataAreALossAndAreDisarmed(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	a := b.application("billing")
	a.program()
	b.reconcile()
	b.events()
	// As a snapshot of the volume from before the last epoch.
	admin, whole := server.Admin(t), redisadmin.InstancePrefix("lk")
	for _, prefix := range []string{whole, a.tenant().Prefix} {
		old := redisproto.Epoch{Number: uint64(b.instance.Status.Epoch) - 1, MaxTTL: time.Minute, SelfArm: true}
		if err := admin.Set(t.Context(), redisproto.EpochKey(prefix), old.String(), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	b.wantQuarantine(server, a, redisproto.CodeNotArmed)
}

func TestAServerThatKeepsLittleIsArmedByTheOperatorAlone(t *testing.T) {
	b, server := externalBench(t, "appendonly no")
	b.reconcile()
	b.wantReady()
	a := b.application("billing")
	a.program()
	if got := a.acquire(server, "key"); got != fmt.Sprint(b.instance.Status.Epoch) {
		t.Errorf("acquire: %s", got)
	}
	b.reconcile()
	b.wantNoWrites()
	b.events()
	server.Kill(t)
	server.Run(t)
	b.wantQuarantine(server, a, redisproto.CodeNoEpoch)
}

func TestAReloadOfTheLibraryIsNoLoss(t *testing.T) {
	b, server := externalBench(t, "appendonly no")
	b.reconcile()
	a := b.application("billing")
	a.program()
	b.reconcile()
	epoch := b.instance.Status.Epoch
	older := "#!lua name=" + redisproto.LibraryName + "\nredis.register_function('lockstead_acquire', function() return redis.error_reply('OLD version') end)"
	if err := server.Admin(t).FunctionLoadReplace(t.Context(), older).Err(); err != nil {
		t.Fatal(err)
	}
	if got := a.acquire(server, "key"); got != "OLD" {
		t.Fatalf("acquire with another library: %s", got)
	}
	b.reconcile()
	b.wantReady()
	if got := a.acquire(server, "key"); got != fmt.Sprint(epoch) || b.instance.Status.Epoch != epoch {
		t.Errorf("acquire after the library was loaded again: %s, epoch %d, want %d", got, b.instance.Status.Epoch, epoch)
	}
}

func TestAQuarantineLastsAsLongAsTheLongestTTLEverAllowed(t *testing.T) {
	b, server := externalBench(t)
	b.instance.Spec.Limits.MaxTTL.Duration = 3 * time.Hour
	if err := environment.Admin.Update(t.Context(), b.instance); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	environment.Get(t, b.instance)
	b.instance.Spec.Limits.MaxTTL.Duration = time.Minute
	if err := environment.Admin.Update(t.Context(), b.instance); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.wantReady()
	if err := server.Admin(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	if until := b.instance.Status.QuarantineUntil; until == nil || until.Time.Before(b.clock.Now().Add(3*time.Hour)) {
		t.Errorf("the quarantine lasts until %v, now is %v", until, b.clock.Now())
	}
}

func TestServersThatCannotBeAdministered(t *testing.T) {
	t.Run("no Secret", func(t *testing.T) {
		b := newBench(t, external())
		b.reconcile()
		if message := b.wantUnavailable(v1alpha1.ReasonCredentialsInvalid); !strings.Contains(message, "Secret admin does not exist") {
			t.Errorf("message is %q", message)
		}
		b.wantNoWrites()
	})
	t.Run("no password", func(t *testing.T) {
		b := newBench(t, external())
		b.secret("admin", map[string]string{"username": "admin"})
		b.reconcile()
		if message := b.wantUnavailable(v1alpha1.ReasonCredentialsInvalid); !strings.Contains(message, "password") {
			t.Errorf("message is %q", message)
		}
	})
	t.Run("a Secret that nobody means to be sent", func(t *testing.T) {
		b := newBench(t, external())
		b.address = "127.0.0.1:1"
		environment.Create(t, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "admin"}, StringData: map[string]string{"username": "a", "password": "b"},
		})
		b.reconcile()
		want := "kubectl -n " + b.namespace + " label secret admin lockstead.dev/credentials=true"
		if message := b.wantUnavailable(v1alpha1.ReasonCredentialsInvalid); !strings.Contains(message, want) {
			t.Errorf("message is %q, want one with %q", message, want)
		}
	})
	t.Run("broken CA", func(t *testing.T) {
		spec := external()
		spec.External.TLS.Mode = v1alpha1.TLSVerify
		b := newBench(t, spec)
		b.secret("admin", map[string]string{"username": "admin", "password": "x", "ca.crt": "none"})
		b.reconcile()
		if message := b.wantUnavailable(v1alpha1.ReasonCredentialsInvalid); !strings.Contains(message, "ca.crt") {
			t.Errorf("message is %q", message)
		}
	})
	t.Run("wrong password", func(t *testing.T) {
		b, _ := externalBench(t)
		secret := b.getSecret("admin")
		secret.Data["password"] = []byte("wrong-one")
		if err := environment.Admin.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		b.reconcile()
		if message := b.wantUnavailable(v1alpha1.ReasonCredentialsInvalid); strings.Contains(message, "wrong-one") {
			t.Errorf("message is %q", message)
		}
	})
	t.Run("unreachable", func(t *testing.T) {
		b, _ := externalBench(t)
		b.reconcile()
		before := b.instance.Status
		b.address = ""
		b.reconcile()
		b.wantUnavailable(v1alpha1.ReasonUnreachable)
		if after := b.instance.Status; after.Epoch != before.Epoch || after.RunID != before.RunID || after.Epoch == 0 {
			t.Errorf("status went from %+v to %+v", before, after)
		}
		b.wantNoWrites()
	})
	t.Run("TLS to a server without", func(t *testing.T) {
		b, _ := externalBench(t)
		b.instance.Spec.External.TLS.Mode = v1alpha1.TLSVerify
		if err := environment.Admin.Update(t.Context(), b.instance); err != nil {
			t.Fatal(err)
		}
		b.reconcile()
		b.wantUnavailable(v1alpha1.ReasonUnreachable)
	})
	t.Run("a replica", func(t *testing.T) {
		b, _ := externalBench(t, "replicaof 127.0.0.1 1")
		b.reconcile()
		if message := b.wantUnavailable(v1alpha1.ReasonUnsupportedServer); !strings.Contains(message, "replica") {
			t.Errorf("message is %q", message)
		}
	})
	t.Run("a cluster", func(t *testing.T) {
		b, _ := externalBench(t, "cluster-enabled yes")
		b.reconcile()
		b.wantUnavailable(v1alpha1.ReasonUnsupportedServer)
	})
	t.Run("a foreign value in place of a record", func(t *testing.T) {
		b, server := externalBench(t)
		key := redisproto.EpochKey(redisadmin.InstancePrefix("lk"))
		if err := server.Admin(t).Set(t.Context(), key, "foreign", 0).Err(); err != nil {
			t.Fatal(err)
		}
		b.reconcile()
		b.wantUnavailable(v1alpha1.ReasonProgramFailed)
		if got := server.Admin(t).Get(t.Context(), key).Val(); got != "foreign" {
			t.Errorf("the foreign value is %q now", got)
		}
	})
}

func TestWhatMakesAServerUnsafeForLocks(t *testing.T) {
	for name, tc := range map[string]struct {
		config string
		user   []any
		reason string
	}{
		"it evicts":                  {"maxmemory-policy allkeys-lru", nil, v1alpha1.ReasonEvictionPolicyWrong},
		"anybody can use it":         {"", []any{"ACL", "SETUSER", "default", "on", "nopass"}, v1alpha1.ReasonDefaultUserOpen},
		"its replay will drop locks": {"", []any{"ACL", "SETUSER", "default", "-@all"}, v1alpha1.ReasonDefaultUserRestricted},
	} {
		t.Run(name, func(t *testing.T) {
			b, server := externalBench(t, tc.config)
			if tc.user != nil {
				if err := server.Admin(t).Do(t.Context(), tc.user...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			b.reconcile()
			b.wantCondition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
			b.wantCondition(v1alpha1.ConditionLockSafe, metav1.ConditionFalse, tc.reason)
			b.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, tc.reason)
			b.wantNoWrites()
		})
	}
}

func TestManagedServerWithForeignService(t *testing.T) {
	b := newBench(t, managed())
	environment.Create(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "locks-redis"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
	})
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonObjectConflict)
}
