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

	"github.com/redis/go-redis/v9"
)

// primaryName is what the sentinels call the primary that they watch.
const primaryName = "locks"

// Replicated is a primary and a replica of it, watched by three sentinels, any two of which promote the replica when the primary is down for a second.
type Replicated struct {
	// Nodes are the first primary and the first replica. Any of them can be killed and run again; the sentinels then tell it whom to follow.
	Nodes     []*Server
	sentinels []*Server
	password  string
}

// StartReplicated starts servers that end with the test, and returns when the replica follows and the sentinels can agree. Both nodes have the same
// users. The options may be nil.
func StartReplicated(t testing.TB, opts *Options) *Replicated {
	t.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	o.password = rand.Text()
	r := &Replicated{password: o.password}
	o.Config = append([]string{"masteruser " + adminName, "masterauth " + o.password, "repl-diskless-sync-delay 0"}, o.Config...)
	primary := Start(t, &o)
	o.Config = append([]string{"replicaof 127.0.0.1 " + strconv.Itoa(primary.port)}, o.Config...)
	r.Nodes = []*Server{primary, Start(t, &o)}
	r.AwaitReplica(t, r.Nodes[1])

	const sentinels, quorum = 3, 2
	for range sentinels {
		r.sentinels = append(r.sentinels, Start(t, &Options{Binary: o.Binary, sentinel: true, Config: []string{
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", primaryName, primary.port, quorum),
			fmt.Sprintf("sentinel auth-user %s %s", primaryName, adminName),
			fmt.Sprintf("sentinel auth-pass %s %s", primaryName, o.password),
			fmt.Sprintf("sentinel down-after-milliseconds %s 1000", primaryName),
			fmt.Sprintf("sentinel failover-timeout %s 5000", primaryName),
		}}))
	}
	for _, sentinel := range r.sentinels {
		client := redis.NewSentinelClient(sentinel.ClientOptions("", ""))
		defer func() { _ = client.Close() }()
		await(t, "a quorum of sentinels that know each other and the replica", func(ctx context.Context) (bool, string) {
			others, err := client.Sentinels(ctx, primaryName).Result()
			if err != nil || len(others) != sentinels-1 {
				return false, fmt.Sprint(others, err)
			}
			replicas, err := client.Replicas(ctx, primaryName).Result()
			return err == nil && len(replicas) == 1 && replicas[0]["flags"] == "slave", fmt.Sprint(replicas, err)
		})
	}
	return r
}

// ClientOptions are the options of a client that asks the sentinels for the primary, and sends nothing twice.
func (r *Replicated) ClientOptions(user, password string) *redis.FailoverOptions {
	node := r.Nodes[0].ClientOptions(user, password)
	options := &redis.FailoverOptions{
		MasterName: primaryName, Username: user, Password: password, MaxRetries: node.MaxRetries, DialerRetries: node.DialerRetries,
		DisableIdentity: node.DisableIdentity, ContextTimeoutEnabled: node.ContextTimeoutEnabled,
	}
	for _, sentinel := range r.sentinels {
		options.SentinelAddrs = append(options.SentinelAddrs, sentinel.Addr())
	}
	return options
}

// AwaitPrimary returns when all sentinels name this node as the primary, and it takes writes.
func (r *Replicated) AwaitPrimary(t testing.TB, node *Server) {
	t.Helper()
	for _, sentinel := range r.sentinels {
		client := redis.NewSentinelClient(sentinel.ClientOptions("", ""))
		defer func() { _ = client.Close() }()
		await(t, "a new primary", func(ctx context.Context) (bool, string) {
			address, err := client.GetMasterAddrByName(ctx, primaryName).Result()
			return err == nil && strings.Join(address, ":") == node.Addr(), fmt.Sprint(address, err)
		})
	}
	admin := node.Admin(t)
	await(t, "a primary that takes writes", func(ctx context.Context) (bool, string) {
		info, err := admin.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:master"), fmt.Sprint(info, err)
	})
}

// AwaitReplica returns when a node follows the other one.
func (r *Replicated) AwaitReplica(t testing.TB, node *Server) {
	t.Helper()
	admin := node.Admin(t)
	await(t, "a replica that follows", func(ctx context.Context) (bool, string) {
		info, err := admin.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up"), fmt.Sprint(info, err)
	})
}

// Detach cuts a replica off: it lives and can be promoted, and gets nothing any more of what the primary acknowledges.
func (r *Replicated) Detach(t testing.TB, replica, primary *Server) {
	t.Helper()
	admin := replica.Admin(t)
	if err := admin.ConfigSet(t.Context(), "masterauth", "wrong").Err(); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	if err := primary.Admin(t).Do(t.Context(), "client", "kill", "type", "replica").Err(); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	await(t, "a replica that is cut off", func(ctx context.Context) (bool, string) {
		info, err := admin.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:down"), fmt.Sprint(info, err)
	})
}

// AwaitCopied returns when the replica has everything that the primary has acknowledged so far.
func (r *Replicated) AwaitCopied(t testing.TB, primary *Server) {
	t.Helper()
	admin := primary.Admin(t)
	// WAIT counts from the last write of its own connection.
	conn := admin.Conn()
	defer func() { _ = conn.Close() }()
	if err := conn.Set(t.Context(), "redistest:mark", "1", 0).Err(); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	if copies, err := conn.Wait(t.Context(), 1, patience).Result(); err != nil || copies != 1 {
		t.Fatalf("redistest: the replica does not follow: %d, %v", copies, err)
	}
}
