// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
)

// proxied sends the connections of a consumer through a proxy before the API server.
func (b *bench) proxied() (*rest.Config, *faultproxy.Proxy) {
	b.t.Helper()
	address, err := url.Parse(b.config.Host)
	if err != nil {
		b.t.Fatal(err)
	}
	proxy := faultproxy.New(b.t, address.Host)
	config := rest.CopyConfig(b.config)
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, proxy.Addr())
	}
	return config, proxy
}

// The network between the holder and the API server swallows everything in both directions, and breaks no connection. The holder's function is told
// before another is granted the key, by Do and by a handle that nobody renews.
func TestDoInABlackHole(t *testing.T) {
	b := newBench(t)
	config, proxy := b.proxied()
	client := func(config *rest.Config) *lock.Client {
		c, err := lock.New(newDriver(t, config, b.namespace, nil), b.key.Prefix, &lock.Options{ReleaseTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	cut, other := client(config), client(b.config)
	plain, err := cut.TryAcquire(b.ctx, "order:2", 2*time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = cut.Do(b.ctx, "order:1", func(ctx context.Context, h *lock.Handle) error {
		// One renewal goes through, so that the last thing that the holder knows is a deadline that was moved.
		if err := h.Renew(b.ctx, 2*time.Second); err != nil {
			t.Errorf("renewal before the network is gone: %v", err)
		}
		proxy.BlackHole()
		for key, handle := range map[string]*lock.Handle{"order:1": h, "order:2": plain} {
			next, err := other.Acquire(b.ctx, key, patience, patience)
			if err != nil {
				t.Errorf("%s did not become free: %v", key, err)
				continue
			}
			if !errors.Is(context.Cause(handle.Context()), lock.ErrLost) || handle.Valid() {
				t.Errorf("another holds %s, and its holder was told %v", key, context.Cause(handle.Context()))
			}
			defer func() {
				if err := next.Release(b.ctx); err != nil {
					t.Errorf("release of %s by its new holder: %v", key, err)
				}
			}()
		}
		if !errors.Is(context.Cause(ctx), lock.ErrLost) {
			t.Errorf("the function was told %v", context.Cause(ctx))
		}
		// What was swallowed arrives now. It takes nothing back.
		proxy.Heal()
		if err := h.Renew(b.ctx, patience); !errors.Is(err, lock.ErrLost) {
			t.Errorf("renewal after the loss: %v", err)
		}
		return nil
	}, &lock.DoOptions{TTL: 2 * time.Second})
	if !errors.Is(err, lock.ErrLost) {
		t.Errorf("Do returned %v, want the loss", err)
	}
}
