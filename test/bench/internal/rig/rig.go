// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rig runs the servers of the benchmark, each when it is first wanted.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
	"github.com/lockstead/lockstead/test/bench/internal/lockers"
)

// Rig has the servers. It is for one goroutine.
type Rig struct {
	owner    *owner
	servers  lockers.Servers
	versions map[string]string
	admin    *redis.Client
	api      *envtest.Environment
}

// New makes a rig without servers.
func New(ctx context.Context) (*Rig, error) {
	dir, err := os.MkdirTemp("", "lockstead-bench")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the servers: %w", err)
	}
	// PostgreSQL runs as another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a folder for the servers: %w", err)
	}
	return &Rig{owner: &owner{ctx: ctx, dir: dir}, versions: map[string]string{}}, nil
}

// Close ends the servers.
func (r *Rig) Close() error {
	var err error
	if r.api != nil {
		err = r.api.Stop()
	}
	return errors.Join(err, guard(r.owner.end), os.RemoveAll(r.owner.dir))
}

// Versions are those of the servers that were started.
func (r *Rig) Versions() map[string]string { return r.versions }

const redisUser = "bench"

// Redis starts a Redis server that keeps everything in memory, so that what is measured is the library and not the disk.
func (r *Rig) Redis() (lockers.Servers, error) {
	if r.admin != nil {
		return r.servers, nil
	}
	err := guard(func() {
		password := "bench"
		server := redistest.Start(r.owner, &redistest.Options{
			Config: []string{"appendonly no"},
			Users: []redisproto.User{{
				Name: redisUser, PasswordHashes: []string{redisproto.PasswordHash(password)}, Rules: []string{"~*", "&*", "+@all"},
			}},
		})
		server.Prepare(r.owner, lockers.RedisPrefix, redisproto.Epoch{Number: 1764550000, SelfArm: true})
		r.servers.Redis = lockers.Redis{Address: server.Addr(), User: redisUser, Password: password}
		r.admin = server.Client(r.owner, redisUser, password)
	})
	if err != nil {
		return r.servers, err
	}
	info, err := r.admin.InfoMap(r.owner.ctx, "server").Result()
	if err != nil {
		return r.servers, fmt.Errorf("ask the Redis server for its version: %w", err)
	}
	r.versions["redis"] = info["Server"]["redis_version"]
	return r.servers, nil
}

// Work is what the Redis server was asked to do.
type Work struct {
	// Requests is how many, and Time how long the server was busy with them, in microseconds.
	Requests, Time float64
}

// Since is what came after an earlier look.
func (w Work) Since(before Work) Work {
	return Work{Requests: w.Requests - before.Requests, Time: w.Time - before.Time}
}

// Work counts what the Redis server was sent, by its own statistics: calls of the named commands, subcommands included.
func (r *Rig) Work(names []string) (work Work, err error) {
	info, err := r.admin.InfoMap(r.owner.ctx, "commandstats").Result()
	if err != nil {
		return work, fmt.Errorf("ask the Redis server for its statistics: %w", err)
	}
	for key, value := range info["Commandstats"] {
		command, _, _ := strings.Cut(strings.TrimPrefix(key, "cmdstat_"), "|")
		if !slices.Contains(names, command) {
			continue
		}
		var calls, time float64
		if _, err := fmt.Sscanf(value, "calls=%g,usec=%g,", &calls, &time); err != nil {
			return work, fmt.Errorf("read the statistics %q of the Redis server: %w", value, err)
		}
		work.Requests += calls
		work.Time += time
	}
	return work, nil
}

// Postgres starts a PostgreSQL server that does not wait for the disk.
func (r *Rig) Postgres() (lockers.Servers, error) {
	if r.servers.Postgres != "" {
		return r.servers, nil
	}
	err := guard(func() {
		server := pgtest.Start(r.owner, nil)
		r.servers.Postgres = server.Database(r.owner)
	})
	return r.servers, err
}

// API starts an API server.
func (r *Rig) API() (lockers.Servers, error) {
	if r.api != nil {
		return r.servers, nil
	}
	api := &envtest.Environment{}
	config, err := api.Start()
	if err != nil {
		return r.servers, fmt.Errorf("start an API server: %w", err)
	}
	r.api = api
	r.servers.API = lockers.API{Host: config.Host, CertData: config.CertData, KeyData: config.KeyData, CA: config.CAData, Namespace: "default"}
	return r.servers, nil
}
