// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
	"github.com/lockstead/lockstead/test/fault/client"
)

// backend is a store with what a run needs to know about it.
type backend struct {
	name   string
	prefix string
	ttl    time.Duration
	// lapse is for how long after the end of a TTL the store may still say that a key is held; negative for any time.
	lapse time.Duration
	// wake is for how long a waiter may sleep on while a key is free.
	wake time.Duration
	// address is where the server listens, "" if there is none; store is what a client is told that reaches it at another address.
	address string
	store   func(address string) client.Store

	redis    *redisServer
	postgres *pgtest.Server
	database string
}

const prefix = "lk:{fault/one}:"

// redisServer is a Redis server and its user.
type redisServer struct {
	*redistest.Server
	epoch redisproto.Epoch
}

// startRedis starts a server that keeps what it has acknowledged, and arms itself after a restart.
func startRedis(t *testing.T) *backend {
	t.Helper()
	const user, password, access = "lk-fault", "a password of the fault run", binding.AccessFunctions
	s := redistest.Start(t, &redistest.Options{Users: []redisproto.User{{
		Name: user, PasswordHashes: []string{redisproto.PasswordHash(password)}, Rules: redisproto.TenantRules("lk:{fault/*}:", access),
	}}})
	r := &redisServer{Server: s, epoch: redisproto.Epoch{Number: 1764550000, MaxTTL: 10 * time.Second, SelfArm: true}}
	s.Prepare(t, prefix, r.epoch)
	return &backend{
		name: "redis", prefix: prefix, ttl: 600 * time.Millisecond, lapse: 100 * time.Millisecond, wake: 3 * time.Second, redis: r,
		address: s.Addr(),
		store: func(address string) client.Store {
			return client.Store{Redis: &client.Redis{Address: address, User: user, Password: password, Access: access}}
		},
	}
}

// startPostgres starts a database that survives a crash.
func startPostgres(t *testing.T) *backend {
	t.Helper()
	s := pgtest.Start(t, &pgtest.Options{CrashSafe: true})
	url := s.Database(t)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := pglock.Install(t.Context(), config, ""); err != nil {
		t.Fatal(err)
	}
	return &backend{
		name: "postgres", prefix: prefix, ttl: 800 * time.Millisecond, lapse: -1, wake: 3 * time.Second, postgres: s, database: config.Database,
		address: s.Addr(),
		store: func(address string) client.Store {
			return client.Store{Postgres: &client.Postgres{URL: pgtest.At(t, url, address)}}
		},
	}
}
