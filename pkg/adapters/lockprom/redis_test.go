// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockprom_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstead/lockstead/pkg/adapters/lockprom"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

const (
	// patience is far longer than any healthy step takes.
	patience = 30 * time.Second
	prefix   = "lk:{test/one}:"
)

// openRedis is a client as an application has it, whose path to a real server can be disturbed. Cleanups has the outcomes of background releases, each after
// it was counted.
func openRedis(t *testing.T, p redistest.Program, metrics *lockprom.Metrics) (c *lock.Client, proxy *faultproxy.Proxy, cleanups chan lock.Outcome) {
	t.Helper()
	server := redistest.Start(t, &redistest.Options{Binary: p.Path, Users: []redisproto.User{{
		Name: "lk-tenant", PasswordHashes: []string{redisproto.PasswordHash("correct horse")}, Rules: redisproto.TenantRules("lk:{test/*}:", binding.AccessFunctions),
	}}})
	server.Prepare(t, prefix, redisproto.Epoch{Number: 1764550000, MaxTTL: time.Hour, SelfArm: true})
	proxy = faultproxy.New(t, server.Addr())
	host, portText, err := net.SplitHostPort(proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	d, err := redislock.FromBinding(&binding.Binding{
		Type: binding.TypeRedis, LockNamespace: "test/one", Prefix: prefix, Instance: "uid-1", TTLDefault: 30 * time.Second, TTLMax: time.Hour,
		Redis: &binding.Redis{Host: host, Port: port, Username: "lk-tenant", Password: "correct horse", Access: binding.AccessFunctions},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cleanups = make(chan lock.Outcome, 10)
	c, err = lock.New(d, prefix, &lock.Options{AttemptTimeout: 500 * time.Millisecond, ReleaseTimeout: 500 * time.Millisecond, Observers: []*lock.Observer{
		metrics.Observer(),
		{Cleanup: func(_ context.Context, e lock.CleanupEvent) { cleanups <- e.Outcome }},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(c.Close(ctx), d.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c, proxy, cleanups
}

func TestFaultsOfARealServerAreCounted(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		metrics := lockprom.New(nil)
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(metrics)
		c, proxy, cleanups := openRedis(t, p, metrics)
		want := func(name, labels string, want float64) {
			t.Helper()
			if got := value(t, registry, "lockstead_"+name, labels); got != want {
				t.Errorf("%s{%s} is %v, want %v", name, labels, got, want)
			}
		}
		cleaned := func(want lock.Outcome) {
			t.Helper()
			select {
			case got := <-cleanups:
				if got != want {
					t.Errorf("the background release ended with %s, want %s", got, want)
				}
			case <-ctx.Done():
				t.Fatalf("no background release: %v", ctx.Err())
			}
		}
		fails := func(key string, outcome error) {
			t.Helper()
			if _, err := c.TryAcquire(ctx, key, 10*time.Minute, 0); !errors.Is(err, outcome) {
				t.Errorf("acquire of %s: %v, want %v", key, err, outcome)
			}
		}
		take := func(key string) *lock.Handle {
			t.Helper()
			h, err := c.TryAcquire(ctx, key, 10*time.Minute, 0)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}

		h := take("order:1")
		want("lock_acquire_total", "outcome=granted", 1)
		want("locks_held", "", 1)
		fails("order:1", lock.ErrHeld)
		want("lock_acquire_total", "outcome=held", 1)

		proxy.DropResponses()
		fails("order:2", lock.ErrUnknown)
		want("lock_acquire_total", "outcome=unknown", 1)
		want("lock_store_faults_total", "op=acquire,reason="+redislock.ReasonConnection, 1)
		proxy.Heal()
		cleaned(lock.OutcomeReleased)
		want("lock_cleanup_total", "outcome=released", 1)

		take("order:2").Release(ctx)
		want("lock_release_total", "outcome=released", 1)
		proxy.HoldResponses()
		fails("order:2", lock.ErrUnknown)
		want("lock_store_faults_total", "op=acquire,reason="+redislock.ReasonTimeout, 1)
		proxy.Heal()
		cleaned(lock.OutcomeReleased)

		proxy.Refuse()
		fails("order:3", lock.ErrUnavailable)
		want("lock_acquire_total", "outcome=unavailable", 1)
		if err := h.Renew(ctx, 0); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("renewal: %v", err)
		}
		want("lock_renew_total", "outcome=unavailable", 1)
		if err := h.Release(ctx); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("release: %v", err)
		}
		want("lock_release_total", "outcome=unavailable", 1)
		want("locks_held", "", 0)
		want("lock_lost_total", "reason="+string(lock.LossDeadline), 0)
		proxy.Heal()
		cleaned(lock.OutcomeReleased)
		take("order:1").Release(ctx)

		ended, end := context.WithCancel(ctx)
		end()
		if _, err := c.TryAcquire(ended, "order:1", 0, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("acquire with a context that has ended: %v", err)
		}
		want("lock_acquire_total", "outcome=cancelled", 1)
	})
}
