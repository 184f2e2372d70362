// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func TestMain(m *testing.M) {
	if locktest.HoldAsChild(openInChild) {
		return
	}
	goleak.VerifyTestMain(redistest.PerServer(m))
}

const (
	// patience is far longer than any healthy step takes.
	patience = 30 * time.Second
	longTTL  = 10 * time.Minute

	tenantName     = "lk-tenant"
	tenantPassword = "correct horse"
	prefix         = "lk:{test/one}:"
)

// epoch is one that arms itself, as for a server that keeps what it acknowledged.
var epoch = redisproto.Epoch{Number: 1764550000, MaxTTL: time.Hour, SelfArm: true}

// tenantUser may use the lock namespaces under a pattern of prefixes.
func tenantUser(pattern string, access binding.Access) redisproto.User {
	return redisproto.User{
		Name: tenantName, PasswordHashes: []string{redisproto.PasswordHash(tenantPassword)}, Rules: redisproto.TenantRules(pattern, access),
	}
}

// startServer starts a server that is ready for prefix, with a tenant for it.
func startServer(t testing.TB, access binding.Access, config ...string) *redistest.Server {
	t.Helper()
	server := redistest.Start(t, &redistest.Options{Config: config, Users: []redisproto.User{tenantUser("lk:{test/*}:", access)}})
	server.Prepare(t, prefix, epoch)
	if access == binding.AccessScripts {
		server.PreloadScripts(t)
	}
	return server
}

// tenantBinding is what the operator would write for the tenant.
func tenantBinding(t testing.TB, address string, access binding.Access) *binding.Binding {
	t.Helper()
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	return &binding.Binding{
		Type: binding.TypeRedis, LockNamespace: "test/one", Prefix: prefix, Instance: "uid-1", TTLDefault: 30 * time.Second, TTLMax: time.Hour,
		Redis: &binding.Redis{Host: host, Port: port, Username: tenantName, Password: tenantPassword, Access: access},
	}
}

// openTenant is a driver as an application has it.
func openTenant(t testing.TB, address string, access binding.Access, options *redislock.Options) *redislock.Driver {
	t.Helper()
	d, err := redislock.FromBinding(tenantBinding(t, address, access), options)
	if err != nil {
		t.Fatal(err)
	}
	closeWithTest(t, d)
	return d
}

func closeWithTest(t testing.TB, d *redislock.Driver) {
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func lockKey(name string) driver.Key { return driver.Key{Prefix: prefix, Name: name} }

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

func request(name string) driver.AcquireRequest {
	return driver.AcquireRequest{Key: lockKey(name), ID: newID(), TTL: longTTL, Owner: "pod-1/test/pid 7", OnLost: func(error) {}}
}

// mustAcquire takes a free lock.
func mustAcquire(t *testing.T, d driver.Driver, req driver.AcquireRequest) driver.Grant {
	t.Helper()
	grant, err := d.Acquire(t.Context(), req)
	if err != nil {
		t.Fatalf("acquire of %q: %v", req.Key.Name, err)
	}
	return grant
}

func release(req driver.AcquireRequest) driver.ReleaseRequest {
	return driver.ReleaseRequest{Key: req.Key, ID: req.ID}
}

func renew(req driver.AcquireRequest) driver.RenewRequest {
	return driver.RenewRequest{Key: req.Key, ID: req.ID, TTL: req.TTL}
}

// passTo passes the lock of an acquisition on to another.
func passTo(from, to driver.AcquireRequest) driver.PassRequest {
	return driver.PassRequest{From: from.ID, To: to}
}

func wantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want one that matches %q", err, want)
	}
}

// wantFault fails unless err is a fault of the store with this outcome and one of the reasons, and no context's error.
func wantFault(t *testing.T, err, outcome error, reasons ...string) {
	t.Helper()
	var fault *driver.StoreError
	if !errors.As(err, &fault) || !errors.Is(fault.Outcome, outcome) {
		t.Fatalf("error is %v, want a fault that matches %q", err, outcome)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v looks like the end of the caller's context", err)
	}
	if slices.Contains(reasons, fault.Reason) {
		return
	}
	t.Fatalf("reason is %q, want one of %q: %v", fault.Reason, reasons, err)
}

// awaitWake fails when no wake-up comes in good time.
func awaitWake(t *testing.T, s driver.Subscription) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.Wake():
	case <-timer.C:
		t.Fatalf("no wake-up within %s", patience)
	}
}

// arm arms a server as the operator does after a quarantine.
func arm(t *testing.T, server *redistest.Server, prefix string, number uint64) {
	t.Helper()
	keys := []string{redisproto.ArmKey(prefix)}
	if err := server.Admin(t).FCall(t.Context(), redisproto.FunctionArm, keys, prefix, strconv.FormatUint(number, 10)).Err(); err != nil {
		t.Fatal(err)
	}
}

// eventually asks a real server until it says yes.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !condition() {
		pause := time.NewTimer(5 * time.Millisecond)
		select {
		case <-pause.C:
		case <-deadline.C:
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// bothAccesses runs a test with functions and with scripts.
func bothAccesses(t *testing.T, test func(t *testing.T, access binding.Access)) {
	t.Helper()
	for _, access := range []binding.Access{binding.AccessFunctions, binding.AccessScripts} {
		t.Run(string(access), func(t *testing.T) { test(t, access) })
	}
}

func newPrefix() string { return fmt.Sprintf("lk:{test/%s}:", strings.ToLower(rand.Text())) }

// openClient is a driver on a client of the application.
func openClient(t testing.TB, client *redis.Options, options *redislock.Options) *redislock.Driver {
	t.Helper()
	c := redis.NewClient(client)
	t.Cleanup(func() { _ = c.Close() })
	d, err := redislock.New(c, options)
	if err != nil {
		t.Fatal(err)
	}
	closeWithTest(t, d)
	return d
}
