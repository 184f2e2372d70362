// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// wantRefused fails unless the server refused for the reason, and the error says what to do.
func wantRefused(t *testing.T, err error, reason string, lasting bool) {
	t.Helper()
	wantFault(t, err, driver.ErrUnavailable, reason)
	if fault, _ := errors.AsType[*driver.StoreError](err); fault.Lasting != lasting || fault.Remedy == "" {
		t.Errorf("lasting is %t, want %t, and the remedy %q: %v", fault.Lasting, lasting, fault.Remedy, err)
	}
}

func configure(t *testing.T, admin *redis.Client, name, value string) {
	t.Helper()
	if err := admin.ConfigSet(t.Context(), name, value).Err(); err != nil {
		t.Fatal(err)
	}
}

// Each of the states that a real server can be brought into is named, and what was asked for in it was not done.
func TestWhatAServerRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		config  []string
		bring   func(t *testing.T, server *redistest.Server, admin *redis.Client) (end func())
		reason  string
		lasting bool
	}{
		"a replica": {nil, func(t *testing.T, _ *redistest.Server, admin *redis.Client) func() {
			if err := admin.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err(); err != nil {
				t.Fatal(err)
			}
			return func() { admin.Do(t.Context(), "replicaof", "no", "one") }
		}, redislock.ReasonReadOnly, true},
		"too few replicas": {nil, func(t *testing.T, _ *redistest.Server, admin *redis.Client) func() {
			configure(t, admin, "min-replicas-to-write", "1")
			return func() { configure(t, admin, "min-replicas-to-write", "0") }
		}, redislock.ReasonReadOnly, false},
		"a disk that cannot be written": {[]string{"save 3600 1000000", "dbfilename taken"}, func(t *testing.T, _ *redistest.Server, admin *redis.Client) func() {
			dir, err := admin.ConfigGet(t.Context(), "dir").Result()
			if err != nil {
				t.Fatal(err)
			}
			// The file of the snapshot cannot take the place of a folder.
			if err := os.MkdirAll(filepath.Join(dir["dir"], "taken", "folder"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := admin.BgSave(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the snapshot that fails", func() bool {
				info, err := admin.Info(t.Context(), "persistence").Result()
				return err == nil && strings.Contains(info, "rdb_last_bgsave_status:err")
			})
			return func() { configure(t, admin, "stop-writes-on-bgsave-error", "no") }
		}, redislock.ReasonPersistence, true},
		"a long script": {[]string{"busy-reply-threshold 1"}, func(t *testing.T, server *redistest.Server, admin *redis.Client) func() {
			ended := make(chan struct{})
			other := server.Admin(t)
			go func() {
				defer close(ended)
				other.Do(t.Context(), "eval", "while true do end", 0)
			}()
			eventually(t, "the script running", func() bool { return redis.HasErrorPrefix(admin.Ping(t.Context()).Err(), "BUSY") })
			return func() {
				admin.ScriptKill(t.Context())
				<-ended
			}
		}, redislock.ReasonBusy, false},
		"a library that was just flushed": {nil, func(t *testing.T, _ *redistest.Server, admin *redis.Client) func() {
			if err := admin.FunctionFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			return func() { admin.FunctionLoad(t.Context(), redisproto.Library()) }
		}, redislock.ReasonNoFunction, true},
		"a user without a right": {nil, func(t *testing.T, _ *redistest.Server, admin *redis.Client) func() {
			if err := admin.Do(t.Context(), "acl", "setuser", tenantName, "-get").Err(); err != nil {
				t.Fatal(err)
			}
			return func() { admin.Do(t.Context(), "acl", "setuser", tenantName, "+get") }
		}, redislock.ReasonPermission, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t, binding.AccessFunctions, tc.config...)
			admin := server.Admin(t)
			d := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
			held := request("held")
			grant := mustAcquire(t, d, held)
			end := tc.bring(t, server, admin)
			_, err := d.Acquire(t.Context(), request("order:1"))
			wantRefused(t, err, tc.reason, tc.lasting)
			_, err = d.Renew(t.Context(), renew(held))
			wantRefused(t, err, tc.reason, tc.lasting)
			_, err = d.Pass(t.Context(), passTo(held, request("held")))
			wantRefused(t, err, tc.reason, tc.lasting)
			wantRefused(t, d.Release(t.Context(), release(held)), tc.reason, tc.lasting)
			end()
			if holding, err := d.Inspect(t.Context(), held.Key); err != nil || holding.ID != held.ID || holding.Token != grant.Token {
				t.Errorf("the lock from before is %+v, %v", holding, err)
			}
			mustAcquire(t, d, request("order:1"))
			if err := d.Release(t.Context(), release(held)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A replica that has lost its primary refuses to read as well, if it is set up so.
func TestAReplicaWithoutItsPrimary(t *testing.T) {
	server := startServer(t, binding.AccessFunctions, "replica-serve-stale-data no")
	d := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	held := request("held")
	mustAcquire(t, d, held)
	if err := server.Admin(t).Do(t.Context(), "replicaof", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := d.Inspect(t.Context(), held.Key)
	wantRefused(t, err, redislock.ReasonReadOnly, false)
	_, err = d.Acquire(t.Context(), request("order:1"))
	wantRefused(t, err, redislock.ReasonReadOnly, true)
}

// The server says why before the first request, and hangs up.
func TestAServerThatTakesNoMoreConnections(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	admin := server.Admin(t)
	d := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	configure(t, admin, "maxclients", "1")
	_, err := d.Acquire(t.Context(), request("order:1"))
	wantRefused(t, err, redislock.ReasonTooManyClients, true)
	_, err = d.Renew(t.Context(), renew(request("order:1")))
	wantRefused(t, err, redislock.ReasonTooManyClients, true)
	configure(t, admin, "maxclients", "100")
	mustAcquire(t, d, request("order:1"))
}

func TestANodeOfAClusterThatServesNoSlots(t *testing.T) {
	server := redistest.Start(t, &redistest.Options{
		Config: []string{"cluster-enabled yes"}, Users: []redisproto.User{tenantUser(prefix, binding.AccessFunctions)},
	})
	if err := server.Admin(t).FunctionLoad(t.Context(), redisproto.Library()).Err(); err != nil {
		t.Fatal(err)
	}
	d := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	_, err := d.Acquire(t.Context(), request("order:1"))
	wantRefused(t, err, redislock.ReasonCluster, false)
}

// A client that does not know clusters is sent to the node that serves the slot, and says so.
func TestAClientThatDoesNotKnowClusters(t *testing.T) {
	cluster := startCluster(t, binding.AccessFunctions)
	moved := 0
	for _, node := range cluster.Nodes {
		d := openTenant(t, node.Addr(), binding.AccessFunctions, nil)
		req := request("order:1")
		_, err := d.Acquire(t.Context(), req)
		if errors.Is(err, driver.ErrUnavailable) && strings.Contains(err.Error(), "MOVED") {
			wantRefused(t, err, redislock.ReasonCluster, true)
			moved++
		}
	}
	if moved != len(cluster.Nodes)-1 {
		t.Errorf("%d of %d nodes sent the client elsewhere, want all but one", moved, len(cluster.Nodes))
	}
}
