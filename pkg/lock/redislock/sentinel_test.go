// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func startReplicated(t *testing.T) *redistest.Replicated {
	t.Helper()
	return redistest.StartReplicated(t, &redistest.Options{Users: []redisproto.User{tenantUser("lk:{test/*}:", binding.AccessFunctions)}})
}

// openByName is a driver on a client that asks the sentinels for the primary. The dialer, of connections to the primary, may be nil.
func openByName(t *testing.T, servers *redistest.Replicated, dial dialer, options *redislock.Options) *redislock.Driver {
	t.Helper()
	o := servers.ClientOptions(tenantName, tenantPassword)
	o.Dialer = dial
	client := redis.NewFailoverClient(o)
	t.Cleanup(func() { _ = client.Close() })
	d, err := redislock.New(client, options)
	if err != nil {
		t.Fatal(err)
	}
	closeWithTest(t, d)
	return d
}

func TestConformanceBehindSentinels(t *testing.T) {
	servers := startReplicated(t)
	primary := servers.Nodes[0]
	locktest.Run(t, locktest.Harness{
		NewDriver: func(t *testing.T) driver.Driver { return openByName(t, servers, nil, nil) },
		NewFaulty: func(t *testing.T) (driver.Driver, locktest.Fault) {
			dial, fault := proxied(t, servers.Nodes)
			return openByName(t, servers, dial, nil), fault
		},
		NewPrefix: func(t *testing.T) string {
			prefix := newPrefix()
			primary.Prepare(t, prefix, epoch)
			return prefix
		},
		Remove: func(t *testing.T, key driver.Key) {
			if err := primary.Admin(t).Del(t.Context(), redisproto.LockKey(key.Prefix, key.Name)).Err(); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// A replica that is promoted may lack what the primary granted last, so it grants nothing before the operator has waited and armed it, whether it has
// the records or not.
func TestAPromotedReplicaGrantsNothingBeforeItIsArmed(t *testing.T) {
	t.Parallel()
	for name, copied := range map[string]bool{"with the record": true, "without the record": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := startReplicated(t)
			primary, replica := servers.Nodes[0], servers.Nodes[1]
			// Only the operator arms a server that has a replica.
			first := redisproto.Epoch{Number: epoch.Number, MaxTTL: time.Hour}
			primary.Prepare(t, prefix, first)
			arm(t, primary, prefix, first.Number)
			servers.AwaitCopied(t, primary)
			d := openByName(t, servers, nil, nil)
			if !copied {
				servers.Detach(t, replica, primary)
			}
			held := request("held")
			before := mustAcquire(t, d, held)
			if copied {
				servers.AwaitCopied(t, primary)
			}
			subscription, err := d.Subscribe(t.Context(), held.Key)
			if err != nil {
				t.Fatal(err)
			}
			defer subscription.Close()

			primary.Kill(t)
			_, err = d.Acquire(t.Context(), request("held"))
			wantStoreFault(t, err)
			servers.AwaitPrimary(t, replica)

			acquire := func(name string) error {
				_, err := d.Acquire(t.Context(), request(name))
				return err
			}
			for _, name := range []string{"held", "another"} {
				err := afterRestart(t, "an answer of the new primary", func() error { return acquire(name) })
				wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNotArmed)
			}
			// A waiter hears of the new primary, and asks it.
			awaitWake(t, subscription)
			// The holder hears the truth: it goes on, or has lost the lock for certain.
			_, err = d.Renew(t.Context(), renew(held))
			if copied && err != nil {
				t.Errorf("renewal of a lock whose record was copied: %v", err)
			}
			if !copied {
				wantIs(t, err, driver.ErrNotHolder)
			}

			// The old primary comes back, with a lock that nobody holds any more or that is held elsewhere, and must not grant either.
			primary.Run(t)
			old := openTenant(t, primary.Addr(), binding.AccessFunctions, nil)
			_, err = old.Acquire(t.Context(), request("another"))
			wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNotArmed, redislock.ReasonReadOnly)
			servers.AwaitReplica(t, primary)
			_, err = old.Acquire(t.Context(), request("another"))
			wantFault(t, err, driver.ErrUnavailable, redislock.ReasonReadOnly)

			// The operator has waited out the longest TTL; here nobody minds that it has not.
			next := redisproto.Epoch{Number: redisproto.NextEpoch(first.Number, first.Number, 0), MaxTTL: time.Hour}
			replica.Prepare(t, prefix, next)
			wantFault(t, acquire("another"), driver.ErrUnavailable, redislock.ReasonNotArmed)
			arm(t, replica, prefix, next.Number)
			if copied {
				wantIs(t, acquire("held"), driver.ErrHeld)
				if err := d.Release(t.Context(), release(held)); err != nil {
					t.Errorf("release by the holder from before: %v", err)
				}
			}
			if after := mustAcquire(t, d, request("held")); !before.Token.Less(after.Token) {
				t.Errorf("token %s was granted after %s", after.Token, before.Token)
			}
		})
	}
}
