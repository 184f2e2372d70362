// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
)

// openInChild opens the server at an address as the tenant, in a process that is stopped.
func openInChild(address string) (driver.Driver, error) {
	return redislock.New(redis.NewClient(&redis.Options{Addr: address, Username: tenantName, Password: tenantPassword, ContextTimeoutEnabled: true}), nil)
}

func TestFrozenHolder(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	locktest.FrozenHolder(t, openTenant(t, server.Addr(), binding.AccessFunctions, nil), prefix, server.Addr())
}

// The network to the holder swallows everything in both directions, and breaks no connection. Its function is told before another is granted the key.
func TestDoInABlackHole(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	proxy := faultproxy.New(t, server.Addr())
	client := func(address string) *lock.Client {
		c, err := lock.New(openTenant(t, address, binding.AccessFunctions, nil), prefix, &lock.Options{ReleaseTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	cut, other := client(proxy.Addr()), client(server.Addr())
	err := cut.Do(t.Context(), "order:1", func(ctx context.Context, h *lock.Handle) error {
		proxy.BlackHole()
		next, err := other.Acquire(t.Context(), "order:1", longTTL, patience)
		if err != nil {
			t.Errorf("the key did not become free: %v", err)
			return nil
		}
		if !errors.Is(context.Cause(ctx), lock.ErrLost) || h.Valid() {
			t.Errorf("another holds the key, and the function was told %v", context.Cause(ctx))
		}
		proxy.Heal()
		if err := h.Renew(t.Context(), longTTL); !errors.Is(err, lock.ErrLost) {
			t.Errorf("renewal after the loss: %v", err)
		}
		return next.Release(t.Context())
	}, &lock.DoOptions{TTL: 2 * time.Second})
	if !errors.Is(err, lock.ErrLost) {
		t.Errorf("Do returned %v, want the loss", err)
	}
}
