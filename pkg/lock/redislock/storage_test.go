// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// storedKeys are all keys of a server, in order.
func storedKeys(t *testing.T, server *redistest.Server) []string {
	t.Helper()
	keys, err := server.Admin(t).Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// What a lock namespace stores does not grow with the keys that were ever locked: tokens come from one counter.
func TestNothingStaysOfALockThatIsOver(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server := startServer(t, access)
		d := openTenant(t, server.Addr(), access, nil)
		var last driver.Token
		for i := range 200 {
			req := request(fmt.Sprint("order:", i))
			grant := mustAcquire(t, d, req)
			if !last.Less(grant.Token) {
				t.Fatalf("token %s was granted after %s", grant.Token, last)
			}
			last = grant.Token
			if err := d.Release(t.Context(), release(req)); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{redisproto.EpochKey(prefix), redisproto.SequenceKey(prefix)}
		slices.Sort(want)
		if keys := storedKeys(t, server); !slices.Equal(keys, want) {
			t.Errorf("the server stores %q, want only %q", keys, want)
		}
	})
}

// Waiters are not in the store, so one that dies cannot stand before the others.
func TestAWaiterThatDiesIsInNobodysWay(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server := startServer(t, access)
		open := func() *lock.Client {
			c, err := lock.New(openTenant(t, server.Addr(), access, nil), prefix, &lock.Options{PollInterval: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close(context.Background()) })
			return c
		}
		h, err := open().TryAcquire(t.Context(), "order:1", longTTL, 0)
		if err != nil {
			t.Fatal(err)
		}
		before := storedKeys(t, server)
		dying, die := context.WithCancel(t.Context())
		dead := make(chan error, 1)
		first := open()
		go func() {
			_, err := first.TryAcquire(dying, "order:1", longTTL, time.Hour)
			dead <- err
		}()
		waits := func() bool {
			n, err := server.Admin(t).PubSubNumSub(t.Context(), redisproto.Channel(prefix, "order:1")).Result()
			return err == nil && n[redisproto.Channel(prefix, "order:1")] > 0
		}
		eventually(t, "a waiter listens", waits)
		if during := storedKeys(t, server); !slices.Equal(before, during) {
			t.Errorf("a waiter changed what is stored from %q to %q", before, during)
		}
		second := open()
		got := make(chan error, 1)
		go func() {
			h, err := second.TryAcquire(t.Context(), "order:1", longTTL, patience)
			if err == nil {
				err = h.Release(t.Context())
			}
			got <- err
		}()
		die()
		if err := <-dead; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter that died: %v", err)
		}
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Errorf("the waiter that came after one that died: %v", err)
		}
	})
}
