// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

func mustSubscribe(t *testing.T, d *redislock.Driver, name string) driver.Subscription {
	t.Helper()
	s, err := d.Subscribe(t.Context(), lockKey(name))
	if err != nil {
		t.Fatalf("subscribe to %q: %v", name, err)
	}
	t.Cleanup(s.Close)
	return s
}

// subscribers is the number of the server's connections with a subscription.
func subscribers(t *testing.T, admin *redis.Client) int {
	t.Helper()
	list, err := admin.Do(t.Context(), "client", "list", "type", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(list, "\n")
}

func noWake(t *testing.T, s driver.Subscription) {
	t.Helper()
	select {
	case <-s.Wake():
		t.Error("woken without a reason")
	default:
	}
}

func TestSubscriptionsShareOneConnection(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	admin := server.Admin(t)
	d := openTenant(t, server.Addr(), binding.AccessFunctions, &redislock.Options{SubscriptionIdle: time.Millisecond})
	var all []driver.Subscription
	for i := range 20 {
		all = append(all, mustSubscribe(t, d, fmt.Sprint("order:", i%10)))
	}
	if got := subscribers(t, admin); got != 1 {
		t.Errorf("%d connections for the subscriptions, want 1", got)
	}
	// Both subscribers of a key are woken, and nobody else.
	req := request("order:3")
	mustAcquire(t, d, req)
	if err := d.Release(t.Context(), release(req)); err != nil {
		t.Fatal(err)
	}
	awaitWake(t, all[3])
	awaitWake(t, all[13])
	for i, s := range all {
		if i%10 != 3 {
			noWake(t, s)
		}
	}
	// The channel is kept as long as one of its subscribers is there.
	all[3].Close()
	all[3].Close()
	mustSubscribe(t, d, "another")
	if err := admin.Publish(t.Context(), redisproto.Channel(prefix, "order:3"), "").Err(); err != nil {
		t.Fatal(err)
	}
	awaitWake(t, all[13])
	noWake(t, all[3])
	all[13].Close()
	eventually(t, "end of the subscription", func() bool {
		return admin.PubSubNumSub(t.Context(), redisproto.Channel(prefix, "order:3")).Val()[redisproto.Channel(prefix, "order:3")] == 0
	})
}

func TestIdleConnectionIsClosedAndMadeAnew(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	admin := server.Admin(t)
	d := openTenant(t, server.Addr(), binding.AccessFunctions, &redislock.Options{SubscriptionIdle: time.Millisecond})
	for range 3 {
		s, err := d.Subscribe(t.Context(), lockKey("order:1"))
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		eventually(t, "end of the idle connection", func() bool { return subscribers(t, admin) == 0 })
	}
}

// A subscription that is confirmed misses nothing, however the subscriptions to its channel come and go.
func TestConfirmedSubscriptionsMissNothing(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	admin := server.Admin(t)
	d := openTenant(t, server.Addr(), binding.AccessFunctions, &redislock.Options{SubscriptionIdle: time.Microsecond})
	const goroutines, rounds = 4, 100
	var work sync.WaitGroup
	for g := range goroutines {
		// Two share a channel, so that one's end meets the other's start.
		name := fmt.Sprint("order:", g%2)
		work.Go(func() {
			for range rounds {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				s, err := d.Subscribe(ctx, lockKey(name))
				if err != nil {
					t.Errorf("subscribe: %v", err)
					cancel()
					return
				}
				if err := admin.Publish(ctx, redisproto.Channel(prefix, name), "").Err(); err != nil {
					t.Errorf("publish: %v", err)
				}
				select {
				case <-s.Wake():
				case <-ctx.Done():
					t.Error("a notification was missed")
				}
				s.Close()
				cancel()
			}
		})
	}
	work.Wait()
}

func TestInterruptionWakesEverybody(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	proxy := faultproxy.New(t, server.Addr())
	d := openTenant(t, proxy.Addr(), binding.AccessFunctions, nil)
	subscriptions := []driver.Subscription{mustSubscribe(t, d, "order:1"), mustSubscribe(t, d, "order:1"), mustSubscribe(t, d, "order:2")}
	proxy.Cut()
	for _, s := range subscriptions {
		awaitWake(t, s)
	}
	// They are subscribed again.
	if err := server.Admin(t).Publish(t.Context(), redisproto.Channel(prefix, "order:2"), "").Err(); err != nil {
		t.Fatal(err)
	}
	awaitWake(t, subscriptions[2])
}

// records collects what is logged.
type records struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *records) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *records) contain(s string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(r.text.String(), s)
}

func (r *records) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// A network that swallows everything ends no connection: only the missing sign of life tells.
func TestSilentConnectionIsReplaced(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	proxy := faultproxy.New(t, server.Addr())
	log := &records{}
	d := openTenant(t, proxy.Addr(), binding.AccessFunctions, &redislock.Options{HealthInterval: 100 * time.Millisecond, Logger: log.logger()})
	s := mustSubscribe(t, d, "order:1")
	proxy.BlackHole()
	eventually(t, "notice of the silence", func() bool { return log.contain("silent") })
	proxy.Heal()
	awaitWake(t, s)
}

// An idle connection that answers its health checks is kept.
func TestHealthyConnectionIsKept(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	admin := server.Admin(t)
	log := &records{}
	// A server that shares the machine with many others may take long for an answer.
	d := openTenant(t, server.Addr(), binding.AccessFunctions, &redislock.Options{HealthInterval: 400 * time.Millisecond, Logger: log.logger()})
	s := mustSubscribe(t, d, "order:1")
	// Nobody but the driver pings.
	if err := admin.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	several := regexp.MustCompile(`cmdstat_ping:calls=([3-9]|\d\d)`)
	eventually(t, "health checks", func() bool { return several.MatchString(admin.Info(t.Context(), "commandstats").Val()) })
	if err := admin.Publish(t.Context(), redisproto.Channel(prefix, "order:1"), "").Err(); err != nil {
		t.Fatal(err)
	}
	awaitWake(t, s)
	if log.contain("interrupted") {
		t.Error("a healthy connection was replaced")
	}
}

func TestSubscribeToAServerThatIsDown(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	d := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	server.Kill(t)
	_, err := d.Subscribe(t.Context(), lockKey("order:1"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonConnect)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.Subscribe(ctx, lockKey("order:1"))
	wantIs(t, err, context.Canceled)
	server.Run(t)
	eventually(t, "subscription to the server that is back", func() bool {
		s, err := d.Subscribe(t.Context(), lockKey("order:1"))
		if err == nil {
			s.Close()
		}
		return err == nil
	})
}

func TestClosedDriverRefuses(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	d, err := redislock.FromBinding(tenantBinding(t, server.Addr(), binding.AccessFunctions), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustSubscribe(t, d, "order:1")
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = d.Acquire(t.Context(), request("order:1"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonClosed)
	_, err = d.Subscribe(t.Context(), lockKey("order:1"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonClosed)
	admin := server.Admin(t)
	eventually(t, "end of the connection", func() bool { return subscribers(t, admin) == 0 })
}
