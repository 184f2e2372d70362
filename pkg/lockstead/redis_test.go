// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
	"github.com/lockstead/lockstead/pkg/lockstead"
)

const testPrefix = "lk:{payments/billing}:"

// newTenant starts a server as the operator sets one up and returns the binding of a tenant that is limited to its prefix.
func newTenant(t *testing.T) (*redistest.Server, *binding.Binding) {
	t.Helper()
	const name, password = "lk-tenant", "first-password"
	s := redistest.Start(t, &redistest.Options{Users: []redisproto.User{{
		Name: name, PasswordHashes: []string{redisproto.PasswordHash(password)}, Rules: redisproto.TenantRules(testPrefix, binding.AccessFunctions),
	}}})
	s.Prepare(t, testPrefix, redisproto.Epoch{Number: 5, MaxTTL: time.Hour, SelfArm: true})
	host, portText, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	return s, &binding.Binding{
		Type: binding.TypeRedis, LockNamespace: "payments/billing", Prefix: testPrefix, Instance: "instance-1",
		TTLDefault: 20 * time.Second, TTLMax: time.Hour,
		Redis: &binding.Redis{Host: host, Port: port, Username: name, Password: password, Access: binding.AccessFunctions},
	}
}

func TestRedisBindingLocksForAllReplicas(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, b := newTenant(t)
	m := newMount(t, b)
	log := &records{}
	outcomes := make(chan lock.Outcome, 2)
	observed := &lock.Options{Observers: []*lock.Observer{{AcquireEnd: func(_ context.Context, e lock.AcquireEndEvent) { outcomes <- e.Outcome }}}}
	first := open(t, &lockstead.Options{BindingDir: m.dir, Logger: log.logger(), Lock: observed})
	second := open(t, &lockstead.Options{BindingDir: m.dir, Logger: log.logger(), Lock: observed})
	h, err := first.TryAcquire(ctx, "order:17", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if h.TTL() != 20*time.Second || h.Token().Epoch != 5 {
		t.Errorf("TTL %s and epoch %d, want those of binding and server", h.TTL(), h.Token().Epoch)
	}
	if _, err := second.TryAcquire(ctx, "order:17", 0, 0); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("the other replica: %v, want held", err)
	}
	if one, two := <-outcomes, <-outcomes; one != lock.OutcomeGranted || two != lock.OutcomeHeld {
		t.Errorf("the observer of the options was told %q and %q", one, two)
	}
	if err := h.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if warnings := log.with(slog.LevelWarn, ""); len(warnings) > 0 {
		t.Errorf("warnings on Redis: %q", warnings)
	}
}

func TestRotatedPasswordIsPickedUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, b := newTenant(t)
	m := newMount(t, b)
	log := &records{}
	c := open(t, &lockstead.Options{BindingDir: m.dir, Logger: log.logger(), RefreshInterval: refresh})
	held, err := c.TryAcquire(ctx, "order:17", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	// As the operator rotates: both work, the Secret changes, the old one goes, and its connections with it.
	admin := s.Admin(t)
	if err := admin.ACLSetUser(ctx, b.Redis.Username, redisproto.PasswordHash("second-password")).Err(); err != nil {
		t.Fatal(err)
	}
	b.Redis.Password = "second-password"
	m.replace(b)
	if err := admin.ACLSetUser(ctx, b.Redis.Username, "!"+strings.TrimPrefix(redisproto.PasswordHash("first-password"), "#")).Err(); err != nil {
		t.Fatal(err)
	}
	if err := admin.Do(ctx, "CLIENT", "KILL", "USER", b.Redis.Username).Err(); err != nil {
		t.Fatal(err)
	}
	// The first request may find a connection that the server has ended.
	for {
		h, err := c.TryAcquire(ctx, "order:18", time.Minute, 0)
		if err == nil {
			if err := h.Release(ctx); err != nil {
				t.Error(err)
			}
			break
		}
		if ctx.Err() != nil || strings.Contains(err.Error(), "WRONGPASS") {
			t.Fatalf("the new password is not used: %v", err)
		}
	}
	if !held.Valid() {
		t.Errorf("the rotation ended a lock: %v", held.Err())
	}
	if err := held.Release(ctx); err != nil {
		t.Errorf("release of a lock from before the rotation: %v", err)
	}
	for _, line := range log.with(slog.LevelDebug, "") {
		if strings.Contains(line, "-password") {
			t.Errorf("a password is logged: %s", line)
		}
	}
}

func TestRedisClientThatIsHandedInWinsAndIsNotClosed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, b := newTenant(t)
	own := s.Admin(t)
	wrong := *b
	redis := *b.Redis
	redis.Port, redis.Password = 1, "of-another-server"
	wrong.Redis = &redis
	for name, o := range map[string]*lockstead.Options{
		"without a binding":              {Redis: own, Prefix: "lk:{alone}:"},
		"with the prefix of a binding":   {Redis: own, BindingDir: newMount(t, &wrong).dir},
		"with the prefix of a Lease one": {Redis: own, BindingDir: newMount(t, leaseBinding("payments")).dir},
	} {
		o.Logger = slog.New(slog.DiscardHandler)
		c, err := lockstead.Open(ctx, o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h, err := c.TryAcquire(ctx, "order:17", time.Minute, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := h.Release(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.Close(ctx); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
		if err := own.Ping(ctx).Err(); err != nil {
			t.Fatalf("%s: Close closed a client that was handed in: %v", name, err)
		}
	}
	if _, err := lockstead.Open(ctx, &lockstead.Options{Redis: own, Driver: newMemory(), Prefix: "lk:{alone}:"}); err == nil {
		t.Error("both a client and a driver are accepted")
	}
}

func TestRedisThatIsDownAtStartIsUnavailableAndThenUsed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, b := newTenant(t)
	s.Stop(t)
	c := open(t, &lockstead.Options{BindingDir: newMount(t, b).dir, Logger: slog.New(slog.DiscardHandler)})
	if _, err := c.TryAcquire(ctx, "order:17", 0, 0); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("error %v, want ErrUnavailable", err)
	}
	s.Run(t)
	h, err := c.TryAcquire(ctx, "order:17", 0, 0)
	if err != nil {
		t.Fatalf("after the server came: %v", err)
	}
	if err := h.Release(ctx); err != nil {
		t.Error(err)
	}
}
