// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func startCluster(t *testing.T, access binding.Access) *redistest.Cluster {
	t.Helper()
	user := tenantUser("lk:{test/*}:", access)
	user.Rules = append(user.Rules, redisproto.ClusterRules()...)
	return redistest.StartCluster(t, &redistest.Options{Users: []redisproto.User{user}})
}

func clusterClient(cluster *redistest.Cluster, dial dialer) *redis.ClusterOptions {
	options := cluster.ClientOptions(tenantName, tenantPassword)
	options.Dialer = dial
	return options
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// newClusterClient is a client of the application. The dialer may be nil.
func newClusterClient(t *testing.T, cluster *redistest.Cluster, dial dialer) *redis.ClusterClient {
	client := redis.NewClusterClient(clusterClient(cluster, dial))
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// wrappedClient is what an application puts around its client, to count or to trace.
type wrappedClient struct{ redis.UniversalClient }

// openOnCluster is a driver on a client of the application. The dialer may be nil.
func openOnCluster(t *testing.T, cluster *redistest.Cluster, dial dialer, options *redislock.Options) *redislock.Driver {
	t.Helper()
	d, err := redislock.New(newClusterClient(t, cluster, dial), options)
	if err != nil {
		t.Fatal(err)
	}
	closeWithTest(t, d)
	return d
}

// clusterFault disturbs the paths to all nodes of a cluster.
type clusterFault []*faultproxy.Proxy

func (f clusterFault) each(do func(*faultproxy.Proxy)) {
	for _, proxy := range f {
		do(proxy)
	}
}

func (f clusterFault) HoldResponses() { f.each((*faultproxy.Proxy).HoldResponses) }
func (f clusterFault) DropResponses() { f.each((*faultproxy.Proxy).DropResponses) }
func (f clusterFault) Refuse()        { f.each((*faultproxy.Proxy).Refuse) }
func (f clusterFault) Heal()          { f.each((*faultproxy.Proxy).Heal) }

// proxied sends the connections that the options make through a proxy for each server.
func proxied(t *testing.T, servers []*redistest.Server) (dial dialer, fault clusterFault) {
	t.Helper()
	addresses := make(map[string]string)
	for _, server := range servers {
		proxy := faultproxy.New(t, server.Addr())
		addresses[server.Addr()] = proxy.Addr()
		fault = append(fault, proxy)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, cmp.Or(addresses[address], address))
	}, fault
}

func TestConformanceOnACluster(t *testing.T) {
	cluster := startCluster(t, binding.AccessFunctions)
	locktest.Run(t, locktest.Harness{
		NewDriver: func(t *testing.T) driver.Driver { return openOnCluster(t, cluster, nil, nil) },
		NewFaulty: func(t *testing.T) (driver.Driver, locktest.Fault) {
			dial, fault := proxied(t, cluster.Nodes)
			return openOnCluster(t, cluster, dial, nil), fault
		},
		NewPrefix: func(t *testing.T) string {
			prefix := newPrefix()
			cluster.Prepare(t, prefix, epoch)
			return prefix
		},
		Remove: func(t *testing.T, key driver.Key) {
			if err := cluster.Admin(t).Del(t.Context(), redisproto.LockKey(key.Prefix, key.Name)).Err(); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// otherNode is a node of the cluster beside those that are given.
func otherNode(t *testing.T, cluster *redistest.Cluster, not ...*redistest.Server) *redistest.Server {
	t.Helper()
	for _, node := range cluster.Nodes {
		if !slices.Contains(not, node) {
			return node
		}
	}
	t.Fatal("the cluster has no other node")
	return nil
}

// The keys of a lock namespace move one by one to the node that is to serve its slot. At no point may a lock be granted twice; while the keys lie on two
// nodes nothing is granted at all.
func TestALockOutlivesTheMoveOfItsSlot(t *testing.T) {
	t.Parallel()
	lockRecord, counter, epochRecord := redisproto.LockKey(prefix, "held"), redisproto.SequenceKey(prefix), redisproto.EpochKey(prefix)
	index := redisproto.HeldKey(prefix)
	for name, tc := range map[string]struct {
		keys []string
		// scripts says that there is no operator: the driver makes the epoch record itself, and must not make a second one.
		scripts bool
		// wrapped says that the driver does not see what kind of client the application has.
		wrapped bool
	}{
		"the lock first":                   {[]string{lockRecord, index, counter, epochRecord}, false, false},
		"the counter first":                {[]string{counter, epochRecord, lockRecord, index}, false, false},
		"the epoch record first":           {[]string{epochRecord, index, lockRecord, counter}, false, false},
		"the lock first, without operator": {[]string{lockRecord, counter, epochRecord, index}, true, false},
		"the list last":                    {[]string{lockRecord, counter, epochRecord, index}, false, false},
		"the list last, a client wrapped by the application":                   {[]string{lockRecord, counter, epochRecord, index}, false, true},
		"the list last, a client wrapped by the application, without operator": {[]string{counter, lockRecord, epochRecord, index}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := startCluster(t, binding.AccessFunctions)
			access := binding.AccessScripts
			var client redis.UniversalClient = cluster.Admin(t)
			if !tc.scripts {
				access = binding.AccessFunctions
				cluster.Prepare(t, prefix, epoch)
				client = newClusterClient(t, cluster, nil)
			}
			if tc.wrapped {
				client = wrappedClient{client}
			}
			d := driverOn(t, client, access)
			held := request("held")
			before := mustAcquire(t, d, held)
			refused := func(when, key string) {
				t.Helper()
				_, err := d.Acquire(t.Context(), request(key))
				if !errors.Is(err, driver.ErrHeld) {
					wantFault(t, err, driver.ErrUnavailable, redislock.ReasonCluster)
				}
				if t.Failed() {
					t.Fatalf("acquire of %q %s: %v", key, when, err)
				}
			}
			renews := func(when string) {
				t.Helper()
				if _, err := d.Renew(t.Context(), renew(held)); err != nil {
					wantFault(t, err, driver.ErrUnavailable, redislock.ReasonCluster, redislock.ReasonNoEpoch)
				}
				// The holder is never told that it holds nothing.
				if t.Failed() {
					t.Fatalf("renewal %s", when)
				}
			}

			to := otherNode(t, cluster, cluster.NodeOf(t, prefix))
			migration := cluster.Migrate(t, prefix, to)
			refused("before a key moved", "held")
			refused("before a key moved", "free")
			renews("before a key moved")
			for _, key := range tc.keys {
				migration.MoveKeys(t, key)
				when := "after the move of " + key
				refused(when, "held")
				refused(when, "free")
				renews(when)
				if holding, err := d.Inspect(t.Context(), held.Key); err != nil || holding.ID != held.ID {
					t.Errorf("inspect %s: %+v, %v", when, holding, err)
				}
				// A release takes two keys, so a server that has one of them says that it cannot yet.
				if err := d.Release(t.Context(), driver.ReleaseRequest{Key: held.Key, ID: newID()}); !errors.Is(err, driver.ErrNotHolder) {
					wantFault(t, err, driver.ErrUnavailable, redislock.ReasonCluster)
				}
				if t.Failed() {
					t.Fatalf("release by somebody else %s", when)
				}
			}
			migration.Finish(t)

			if got := cluster.NodeOf(t, prefix); got != to {
				t.Fatalf("the slot is served by %s, want %s", got.Addr(), to.Addr())
			}
			_, err := d.Acquire(t.Context(), request("held"))
			wantIs(t, err, driver.ErrHeld)
			if _, err := d.Renew(t.Context(), renew(held)); err != nil {
				t.Errorf("renewal on the new node: %v", err)
			}
			if err := d.Release(t.Context(), release(held)); err != nil {
				t.Errorf("release on the new node: %v", err)
			}
			if after := mustAcquire(t, d, request("held")); !before.Token.Less(after.Token) {
				t.Errorf("token %s was granted after %s", after.Token, before.Token)
			}
		})
	}
}

// Renewals that are sent together may be of any keys of a lock namespace: they are single commands, and all keys of a namespace lie in one slot.
func TestABatchOfRenewalsCrossesNoSlots(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, binding.AccessFunctions)
	cluster.Prepare(t, prefix, epoch)
	d := openOnCluster(t, cluster, nil, nil)
	var batch []driver.RenewRequest
	for i := range 50 {
		req := request(fmt.Sprint("order:", i))
		mustAcquire(t, d, req)
		batch = append(batch, renew(req))
	}
	for i, outcome := range d.RenewBatch(t.Context(), batch) {
		if outcome.Err != nil || outcome.Renewal.TTL != longTTL {
			t.Errorf("renewal %d: %+v", i, outcome)
		}
	}
}

// A node that takes over a slot was not armed for it, and has its own function library or none.
func TestANodeGrantsNothingBeforeItIsReady(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, binding.AccessFunctions)
	waits := redisproto.Epoch{Number: epoch.Number, MaxTTL: time.Hour}
	cluster.Prepare(t, prefix, waits)
	d := openOnCluster(t, cluster, nil, nil)
	from := cluster.NodeOf(t, prefix)
	arm(t, from, prefix, waits.Number)
	mustAcquire(t, d, request("order:1"))

	to := otherNode(t, cluster, from)
	if err := to.Admin(t).FunctionDelete(t.Context(), redisproto.LibraryName).Err(); err != nil {
		t.Fatal(err)
	}
	cluster.Migrate(t, prefix, to).Finish(t)
	_, err := d.Acquire(t.Context(), request("order:2"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNoFunction)
	cluster.Prepare(t, prefix, waits)
	_, err = d.Acquire(t.Context(), request("order:2"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNotArmed)
	arm(t, to, prefix, waits.Number)
	mustAcquire(t, d, request("order:2"))
	_, err = d.Acquire(t.Context(), request("order:1"))
	wantIs(t, err, driver.ErrHeld)
}

// Notifications reach a subscriber whatever node it listens on.
func TestNotificationsCrossTheCluster(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, binding.AccessFunctions)
	cluster.Prepare(t, prefix, epoch)
	d := openOnCluster(t, cluster, nil, nil)
	held := request("order:1")
	mustAcquire(t, d, held)
	serving := cluster.NodeOf(t, prefix)
	elsewhere := openTenant(t, otherNode(t, cluster, serving).Addr(), binding.AccessFunctions, nil)
	subscription, err := elsewhere.Subscribe(t.Context(), held.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer subscription.Close()
	if err := d.Release(t.Context(), release(held)); err != nil {
		t.Fatal(err)
	}
	awaitWake(t, subscription)
	// A client for one server is told where the key is, and says so.
	_, err = elsewhere.Acquire(t.Context(), request("order:1"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonCluster)
}

// Nobody gets a lock from a cluster that lacks the node with its slot.
func TestAKilledNodeGrantsNothing(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, binding.AccessFunctions)
	cluster.Prepare(t, prefix, epoch)
	d := openOnCluster(t, cluster, nil, &redislock.Options{AttemptTimeout: time.Second})
	held := request("held")
	before := mustAcquire(t, d, held)
	subscription, err := d.Subscribe(t.Context(), held.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer subscription.Close()
	node := cluster.NodeOf(t, prefix)
	node.Kill(t)

	// First the node is missed by this client alone, then by the rest of the cluster, which stops serving.
	rest := openTenant(t, otherNode(t, cluster, node).Addr(), binding.AccessFunctions, nil)
	eventually(t, "a cluster that has noticed", func() bool {
		_, err := d.Acquire(t.Context(), request("held"))
		wantStoreFault(t, err)
		_, err = d.Renew(t.Context(), renew(held))
		wantStoreFault(t, err)
		var fault *driver.StoreError
		_, err = rest.Acquire(t.Context(), request("held"))
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonCluster)
		return errors.As(err, &fault) && strings.Contains(fault.Err.Error(), "CLUSTERDOWN")
	})

	node.Run(t)
	cluster.AwaitWhole(t)
	err = afterRestart(t, "an answer of the node", func() error {
		_, err := d.Acquire(t.Context(), request("held"))
		return err
	})
	wantIs(t, err, driver.ErrHeld)
	awaitWake(t, subscription)
	if _, err := d.Renew(t.Context(), renew(held)); err != nil {
		t.Errorf("renewal after the restart: %v", err)
	}
	if err := d.Release(t.Context(), release(held)); err != nil {
		t.Errorf("release after the restart: %v", err)
	}
	if after := mustAcquire(t, d, request("held")); !before.Token.Less(after.Token) {
		t.Errorf("token %s was granted after %s", after.Token, before.Token)
	}
}
