// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// withoutFunctions is the configuration of a server of a provider that has none.
func withoutFunctions(config ...string) []string {
	return append(config, `rename-command FUNCTION ""`, `rename-command FCALL ""`, `rename-command FCALL_RO ""`)
}

// driverOf is the library's driver with what Program gives the application.
func (a *application) driverOf(server *redistest.Server) *redislock.Driver {
	a.t.Helper()
	programmed, err := a.tenants.Program(a.t.Context(), a.instance, a.tenant())
	if err != nil {
		a.t.Fatal(err)
	}
	reached := programmed.Server
	client := server.Client(a.t, reached.Username, reached.Password)
	d, err := redislock.New(client, &redislock.Options{Access: reached.Access, Operated: true})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = d.Close() })
	return d
}

func (a *application) request(key string, digit string) driver.AcquireRequest {
	return driver.AcquireRequest{
		Key: driver.Key{Prefix: a.tenant().Prefix, Name: key}, ID: strings.Repeat(digit, 32), TTL: 30 * time.Second, Owner: "test", OnLost: func(error) {},
	}
}

func wantReason(t *testing.T, err error, reason string) {
	t.Helper()
	var fault *driver.StoreError
	if !errors.As(err, &fault) || !errors.Is(err, driver.ErrUnavailable) || fault.Reason != reason {
		t.Fatalf("error is %v, want unavailable for %s", err, reason)
	}
}

func TestAServerWithoutFunctionsGrantsByScripts(t *testing.T) {
	b, server := externalBench(t, withoutFunctions()...)
	b.reconcile()
	b.wantReady()
	if got := b.instance.Status.Capabilities; len(got) != 2 || got[0] != v1alpha1.CapabilityACL || got[1] != v1alpha1.CapabilityDurable {
		t.Errorf("capabilities are %v", got)
	}
	a := b.application("billing")
	programmed, err := b.tenants.Program(t.Context(), b.instance, a.tenant())
	if err != nil {
		t.Fatal(err)
	}
	reached := programmed.Server
	if reached.Access != binding.AccessScripts {
		t.Errorf("access is %s", reached.Access)
	}
	a.program()
	d := a.driverOf(server)
	held := a.request("key", "a")
	grant, err := d.Acquire(t.Context(), held)
	if err != nil {
		t.Fatal(err)
	}
	if grant.Token.Epoch != uint64(b.instance.Status.Epoch) {
		t.Errorf("token is %s", grant.Token)
	}
	b.reconcile()
	b.wantNoWrites()
	if err := a.redis(server).Eval(t.Context(), "return 1", nil).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
		t.Errorf("a tenant sent a script: %v", err)
	}

	// A server that keeps every write grants again as soon as the operator has looked.
	server.Kill(t)
	server.Run(t)
	b.reconcile()
	b.wantReady()
	a.program()
	d = a.driverOf(server)
	if _, err := d.Acquire(t.Context(), a.request("key", "b")); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("the lock after a restart: %v", err)
	}
	if err := d.Release(t.Context(), driver.ReleaseRequest{Key: held.Key, ID: held.ID}); err != nil {
		t.Error(err)
	}
}

// The script that grants is what a restarted server has lost for certain.
func TestAServerWithoutFunctionsThatMayHaveLostLocksWaits(t *testing.T) {
	b, server := externalBench(t, withoutFunctions("appendfsync everysec")...)
	b.reconcile()
	a := b.application("billing")
	a.program()
	held := a.request("key", "a")
	if _, err := a.driverOf(server).Acquire(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	epoch := b.instance.Status.Epoch
	server.Kill(t)
	server.Run(t)
	// The operator that gives the user back would ask first; somebody with the user's rights is refused as well.
	client := server.Admin(t)
	d, err := redislock.New(client, &redislock.Options{Access: binding.AccessScripts, Operated: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	_, err = d.Acquire(t.Context(), a.request("other", "c"))
	wantReason(t, err, redislock.ReasonNoScript)

	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonQuarantined)
	_, err = d.Acquire(t.Context(), a.request("other", "c"))
	wantReason(t, err, redislock.ReasonNoScript)
	// Also if the script comes from elsewhere: the record says no.
	if err := client.ScriptLoad(t.Context(), redisproto.AcquireOperatedScript().Source).Err(); err != nil {
		t.Fatal(err)
	}
	_, err = d.Acquire(t.Context(), a.request("other", "c"))
	wantReason(t, err, redislock.ReasonNotArmed)
	// The holder's scripts are there.
	if _, err := d.Inspect(t.Context(), held.Key); err != nil {
		t.Error(err)
	}

	b.pass(time.Hour + time.Second)
	b.reconcile()
	b.wantReady()
	grant, err := d.Acquire(t.Context(), a.request("other", "c"))
	if err != nil || grant.Token.Epoch <= uint64(epoch) {
		t.Errorf("after the quarantine: token %s, %v", grant.Token, err)
	}
}

func TestAServerWithNeitherFunctionsNorScripts(t *testing.T) {
	b, _ := externalBench(t, withoutFunctions(`rename-command SCRIPT ""`)...)
	b.reconcile()
	if message := b.wantUnavailable(v1alpha1.ReasonUnsupportedServer); !strings.Contains(message, "Grant it FUNCTION, or SCRIPT") {
		t.Errorf("message is %q", message)
	}
	a := b.application("billing")
	if _, err := b.tenants.Program(t.Context(), b.instance, a.tenant()); !errors.Is(err, redisinstance.ErrNotAvailable) {
		t.Errorf("program: %v", err)
	}
	b.reconcile()
	b.wantNoWrites()
}
