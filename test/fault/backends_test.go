// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
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
	// store is how a client reaches it.
	store func() client.Store

	redis *redisServer
}

const prefix = "lk:{fault/one}:"

// redisServer is a Redis server and its user.
type redisServer struct {
	*redistest.Server
	epoch    redisproto.Epoch
	password string
	access   binding.Access
}

// startRedis starts a server that keeps what it has acknowledged, and arms itself after a restart.
func startRedis(t *testing.T) *backend {
	t.Helper()
	return startRedisAs(t, binding.AccessFunctions, true)
}

func startRedisAs(t *testing.T, access binding.Access, selfArm bool, config ...string) *backend {
	t.Helper()
	const user, password = "lk-fault", "a password of the fault run"
	s := redistest.Start(t, &redistest.Options{Config: config, Users: []redisproto.User{{
		Name: user, PasswordHashes: []string{redisproto.PasswordHash(password)}, Rules: redisproto.TenantRules("lk:{fault/*}:", access),
	}}})
	r := &redisServer{Server: s, password: password, access: access, epoch: redisproto.Epoch{Number: 1764550000, MaxTTL: 10 * time.Second, SelfArm: selfArm}}
	r.prepare(t)
	return &backend{
		name: "redis", prefix: prefix, ttl: 600 * time.Millisecond, lapse: 100 * time.Millisecond, wake: 3 * time.Second, redis: r,
		store: func() client.Store {
			return client.Store{Redis: &client.Redis{Address: s.Addr(), User: user, Password: password, Access: access}}
		},
	}
}

func (r *redisServer) prepare(t *testing.T) {
	t.Helper()
	r.Prepare(t, prefix, r.epoch)
	if r.access == binding.AccessScripts {
		r.PreloadScripts(t)
	}
}
