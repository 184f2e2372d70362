// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
)

// RedisPrefix is that of the lock namespace on the Redis server.
const RedisPrefix = "lk:{bench/bench}:"

// The names of this library's own subjects.
const (
	Lockstead         = "lockstead"
	LocksteadScripts  = "lockstead (scripts)"
	LocksteadLease    = "lockstead (Lease)"
	LocksteadPostgres = "lockstead (PostgreSQL)"
)

// ours is a client of this library.
type ours struct {
	client *lock.Client
	driver driver.Driver
	close  func()
}

func newOurs(d driver.Driver, prefix string, closeStore func()) (Locker, error) {
	client, err := lock.New(d, prefix, nil)
	if err != nil {
		return nil, fmt.Errorf("open the lock client: %w", err)
	}
	return &ours{client: client, driver: d, close: closeStore}, nil
}

// Acquire implements Locker.
func (o *ours) Acquire(ctx context.Context, key string, wait time.Duration) (Release, error) {
	h, err := o.client.TryAcquire(ctx, key, TTL, wait)
	if errors.Is(err, lock.ErrHeld) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	return h.Release, nil
}

// Close implements Locker.
func (o *ours) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), TTL)
	defer cancel()
	_ = o.client.Close(ctx)
	_ = o.driver.Close()
	o.close()
}

// Client is the library's client behind a locker of ours.
func Client(l Locker) (*lock.Client, bool) {
	o, ok := l.(*ours)
	if !ok {
		return nil, false
	}
	return o.client, true
}

func openRedis(access binding.Access) func(context.Context, Servers) (Locker, error) {
	return func(_ context.Context, servers Servers) (Locker, error) {
		client := redis.NewClient(goRedisOptions(servers.Redis))
		d, err := redislock.New(client, &redislock.Options{Access: access})
		if err != nil {
			return nil, fmt.Errorf("open the driver: %w", err)
		}
		return newOurs(d, RedisPrefix, func() { _ = client.Close() })
	}
}

func openLease(_ context.Context, servers Servers) (Locker, error) {
	d, err := leaselock.New(servers.API.Config(), servers.API.Namespace, nil)
	if err != nil {
		return nil, fmt.Errorf("open the driver: %w", err)
	}
	return newOurs(d, "bench.", func() {})
}

func openPostgres(ctx context.Context, servers Servers) (Locker, error) {
	config, err := pgx.ParseConfig(servers.Postgres)
	if err != nil {
		return nil, fmt.Errorf("open the driver: %w", err)
	}
	if err := pglock.Install(ctx, config, ""); err != nil {
		return nil, fmt.Errorf("open the driver: %w", err)
	}
	d, err := pglock.New(ctx, config, &pglock.Options{MaxSessions: poolSize})
	if err != nil {
		return nil, fmt.Errorf("open the driver: %w", err)
	}
	return newOurs(d, "bench:", func() {})
}
