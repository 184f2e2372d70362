// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockers

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
)

// RawAdvisory is the bare protocol: a session-level advisory lock of PostgreSQL.
const RawAdvisory = "raw advisory lock"

// OnPostgres are all subjects on PostgreSQL.
func OnPostgres() []Subject {
	return []Subject{
		{Name: RawAdvisory, Open: openAdvisory},
		{Name: LocksteadPostgres, Open: openPostgres},
	}
}

type advisory struct{ pool *pgxpool.Pool }

func openAdvisory(ctx context.Context, servers Servers) (Locker, error) {
	config, err := pgxpool.ParseConfig(servers.Postgres)
	if err != nil {
		return nil, fmt.Errorf("open the pool: %w", err)
	}
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the pool: %w", err)
	}
	return &advisory{pool}, nil
}

// Acquire implements Locker. The lock belongs to a connection, which it keeps.
func (a *advisory) Acquire(ctx context.Context, key string, wait time.Duration) (Release, error) {
	conn, err := a.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	number := pglock.KeyHash(driver.Key{Prefix: "advisory:", Name: key})
	got := true
	if wait == 0 {
		err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", number).Scan(&got)
	} else {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		_, err = conn.Exec(waiting, "SELECT pg_advisory_lock($1)", number)
	}
	if err != nil || !got {
		conn.Release()
		if err == nil {
			err = ErrBusy
		}
		return nil, err
	}
	return func(ctx context.Context) error {
		defer conn.Release()
		_, err := conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", number)
		return err
	}, nil
}

// Close implements Locker.
func (a *advisory) Close() { a.pool.Close() }
