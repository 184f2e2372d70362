// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// slots is the number of slots of a cluster.
const slots = 16384

// Cluster is a Redis Cluster of three primaries without replicas, each with a third of the slots.
type Cluster struct {
	// Nodes are servers that can be killed and run again like any other.
	Nodes    []*Server
	password string
}

// StartCluster starts a cluster that ends with the test, and returns when all nodes agree on it. All nodes have the same users. The options may be nil.
func StartCluster(t testing.TB, opts *Options) *Cluster {
	t.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	o.cluster, o.password = true, rand.Text()
	const primaries = 3
	c := &Cluster{password: o.password}
	for range primaries {
		c.Nodes = append(c.Nodes, Start(t, &o))
	}
	first := c.Nodes[0]
	for i, node := range c.Nodes {
		admin := node.Admin(t)
		from, to := slots*i/primaries, slots*(i+1)/primaries-1
		for _, command := range [][]any{
			{"cluster", "addslotsrange", from, to},
			{"cluster", "set-config-epoch", i + 1},
			{"cluster", "meet", "127.0.0.1", first.port, first.busPort},
		} {
			// A node cannot meet itself, and need not.
			if i == 0 && command[1] == "meet" {
				continue
			}
			if err := admin.Do(t.Context(), command...).Err(); err != nil {
				t.Fatalf("redistest: %v: %v", command, err)
			}
		}
	}
	c.AwaitWhole(t)
	return c
}

// AwaitWhole returns when every node sees all nodes, and all slots served.
func (c *Cluster) AwaitWhole(t testing.TB) {
	t.Helper()
	for _, node := range c.Nodes {
		admin := node.Admin(t)
		await(t, "a whole cluster", func(ctx context.Context) (bool, string) {
			info, err := admin.ClusterInfo(ctx).Result()
			whole := strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d", slots)) &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(c.Nodes)))
			return err == nil && whole, fmt.Sprint(info, err)
		})
	}
}

// await asks the servers until they say yes.
func await(t testing.TB, what string, condition func(ctx context.Context) (ok bool, state string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		ok, state := condition(ctx)
		if ok {
			return
		}
		pause := time.NewTimer(20 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			t.Fatalf("redistest: %s: not within %s: %s", what, patience, state)
		}
	}
}

// ClientOptions are the options of a client that sends nothing twice but what a node refused because another one serves it.
func (c *Cluster) ClientOptions(user, password string) *redis.ClusterOptions {
	node := c.Nodes[0].ClientOptions(user, password)
	options := &redis.ClusterOptions{
		Username: user, Password: password, MaxRetries: node.MaxRetries, DialerRetries: node.DialerRetries, DisableIdentity: node.DisableIdentity,
		ContextTimeoutEnabled: node.ContextTimeoutEnabled, MaintNotificationsConfig: node.MaintNotificationsConfig,
	}
	for _, node := range c.Nodes {
		options.Addrs = append(options.Addrs, node.Addr())
	}
	return options
}

// AdminPassword is the password of the user "admin" on every node.
func (c *Cluster) AdminPassword() string { return c.password }

// Admin is a client with every right, closed with the test.
func (c *Cluster) Admin(t testing.TB) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(c.ClientOptions(adminName, c.password))
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Prepare makes the cluster ready for a lock namespace: the function library on every node that has none, and the epoch record.
func (c *Cluster) Prepare(t testing.TB, prefix string, epoch redisproto.Epoch) {
	t.Helper()
	for _, node := range c.Nodes {
		node.loadLibrary(t)
	}
	admin := redis.NewClusterClient(c.ClientOptions(adminName, c.password))
	defer func() { _ = admin.Close() }()
	if err := admin.Set(t.Context(), redisproto.EpochKey(prefix), epoch.String(), 0).Err(); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}

// NodeOf is the node that serves a lock namespace.
func (c *Cluster) NodeOf(t testing.TB, prefix string) *Server {
	t.Helper()
	slot := c.slot(t, prefix)
	for _, node := range c.Nodes {
		if node.process.Ended() {
			continue
		}
		shards, err := node.Admin(t).ClusterShards(t.Context()).Result()
		if err != nil {
			t.Fatalf("redistest: %v", err)
		}
		for _, shard := range shards {
			for _, slots := range shard.Slots {
				if int64(slot) < slots.Start || int64(slot) > slots.End {
					continue
				}
				for _, candidate := range c.Nodes {
					if int64(candidate.port) == shard.Nodes[0].Port {
						return candidate
					}
				}
			}
		}
	}
	t.Fatalf("redistest: no node serves slot %d", slot)
	return nil
}

func (c *Cluster) slot(t testing.TB, prefix string) int {
	t.Helper()
	slot, err := c.Nodes[0].Admin(t).ClusterKeySlot(t.Context(), prefix).Result()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return int(slot)
}

// Migration is the move of the slot of a lock namespace from one node to another. The slot's keys move one by one, as with redis-cli --cluster reshard.
type Migration struct {
	cluster  *Cluster
	slot     int
	from, to *Server
}

// Migrate begins the move of a lock namespace to another node. Nothing has moved yet; both nodes know that it will.
func (c *Cluster) Migrate(t testing.TB, prefix string, to *Server) *Migration {
	t.Helper()
	m := &Migration{cluster: c, slot: c.slot(t, prefix), from: c.NodeOf(t, prefix), to: to}
	m.setSlot(t, to, "importing", m.id(t, m.from))
	m.setSlot(t, m.from, "migrating", m.id(t, to))
	return m
}

func (m *Migration) id(t testing.TB, node *Server) string {
	t.Helper()
	id, err := node.Admin(t).Do(t.Context(), "cluster", "myid").Text()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return id
}

func (m *Migration) setSlot(t testing.TB, on *Server, state, id string) {
	t.Helper()
	if err := on.Admin(t).Do(t.Context(), "cluster", "setslot", m.slot, state, id).Err(); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}

// MoveKeys moves these keys, with what is left of their time.
func (m *Migration) MoveKeys(t testing.TB, keys ...string) {
	t.Helper()
	command := []any{"migrate", "127.0.0.1", strconv.Itoa(m.to.port), "", 0, patience.Milliseconds(), "auth2", adminName, m.cluster.password, "keys"}
	for _, key := range keys {
		command = append(command, key)
	}
	if err := m.from.Admin(t).Do(t.Context(), command...).Err(); err != nil {
		t.Fatalf("redistest: move of %q: %v", keys, err)
	}
}

// Finish moves all keys that are left, and hands the slot over.
func (m *Migration) Finish(t testing.TB) {
	t.Helper()
	keys, err := m.from.Admin(t).ClusterGetKeysInSlot(t.Context(), m.slot, slots).Result()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	if len(keys) > 0 {
		m.MoveKeys(t, keys...)
	}
	id := m.id(t, m.to)
	for _, node := range append([]*Server{m.to, m.from}, m.cluster.Nodes...) {
		m.setSlot(t, node, "node", id)
	}
}
