// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/examples/orders/shop"
	"github.com/lockstead/lockstead/pkg/adapters/lockprom"
	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/pgstore"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
	"github.com/lockstead/lockstead/pkg/lockstead"
)

// backends are what the service keeps its state in.
type backends struct {
	pool    *pgxpool.Pool
	locks   *lockstead.Client
	records idempotency.Store
	// table are the records when they are in the database: somebody has to sweep them.
	table *pgstore.Store
	// closers close what was opened, the last first.
	closers []func(context.Context) error
}

func (b *backends) close(ctx context.Context) error {
	var problems []error
	for _, closer := range slices.Backward(b.closers) {
		problems = append(problems, closer(ctx))
	}
	return errors.Join(problems...)
}

// open connects to all of them. When it fails, nothing is left open.
func open(ctx context.Context, c config, metrics *lockprom.Metrics, log *slog.Logger) (_ *backends, err error) {
	b := &backends{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close(context.WithoutCancel(ctx)))
		}
	}()
	if b.pool, err = pgxpool.New(ctx, c.databaseURL); err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	b.closers = append(b.closers, func(context.Context) error {
		b.pool.Close()
		return nil
	})
	if err := b.migrate(ctx, log); err != nil {
		return nil, err
	}
	if err := b.openRecords(ctx, c); err != nil {
		return nil, err
	}
	return b, b.openLocks(ctx, c, metrics, log)
}

// migrate makes the tables, on one replica at a time.
func (b *backends) migrate(ctx context.Context, log *slog.Logger) error {
	err := pglock.Migrate(ctx, b.pool.Config().ConnConfig, "orders", func(ctx context.Context) error {
		_, err := b.pool.Exec(ctx, shop.Schema+pgstore.Schema(""))
		return err
	}, &pglock.MigrateOptions{Options: pglock.Options{Logger: log}})
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return nil
}

// recordsPrefix tells the records from all else on the Redis server.
const recordsPrefix = "orders:idempotency:"

// openRecords chooses where records are kept.
func (b *backends) openRecords(ctx context.Context, c config) error {
	if c.redisURL == "" {
		table, err := pgstore.New(b.pool, nil)
		if err != nil {
			return err
		}
		b.table, b.records = table, table
		return table.Check(ctx)
	}
	options, err := redis.ParseURL(c.redisURL)
	if err != nil {
		return errors.New("REDIS_URL is no URL like redis://user:password@host:6379/0") // The error of ParseURL can have the password in it.
	}
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	b.closers = append(b.closers, func(context.Context) error { return client.Close() })
	b.records, err = redisstore.New(client, recordsPrefix, nil)
	return err
}

// openLocks opens the locks of the LockNamespace whose binding is mounted, or those in the database.
func (b *backends) openLocks(ctx context.Context, c config, metrics *lockprom.Metrics, log *slog.Logger) error {
	options := &lockstead.Options{Logger: log, Lock: &lock.Options{Observers: []*lock.Observer{metrics.Observer()}}}
	if c.locksInDatabase {
		driver, err := pglock.New(ctx, b.pool.Config().ConnConfig, &pglock.Options{Logger: log})
		if err != nil {
			return err
		}
		b.closers = append(b.closers, func(context.Context) error { return driver.Close() })
		options.Driver, options.Prefix = driver, "orders:"
	}
	client, err := lockstead.Open(ctx, options)
	if err != nil {
		return err
	}
	b.locks = client
	b.closers = append(b.closers, client.Close)
	return nil
}

// sweepInterval is how often records whose retention is over are deleted from the database.
const sweepInterval = time.Hour

// sweep deletes records whose retention is over, until ctx ends. Replicas may do it at the same time.
func (b *backends) sweep(ctx context.Context, log *slog.Logger) {
	if b.table == nil {
		return
	}
	const batch = 1000
	for {
		for n := batch; n == batch; {
			var err error
			if n, err = b.table.Sweep(ctx, batch); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, "records not swept, trying again later", "error", err)
			}
		}
		pause := clock.Boot().NewTimer(sweepInterval)
		select {
		case <-pause.C():
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}
