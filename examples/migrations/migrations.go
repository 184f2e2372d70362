// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrations brings a database up to date at the start of an application, on one replica at a time, with goose.
//
// Every replica calls Up before it serves. The first one that gets the lock runs the steps; the others wait in the database, up to five minutes, and then
// find nothing left to do. A replica that vanishes in the middle is followed after its TTL of 30 s; goose runs each step in a transaction, so its last step is undone.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/lockstead/lockstead/pkg/lock/pglock"
)

//go:embed steps/*.sql
var embedded embed.FS

// Steps are the migrations of this example.
func Steps() (fs.FS, error) { return fs.Sub(embedded, "steps") }

// Up runs the steps that are missing and returns how many it ran. The configuration must lead to PostgreSQL itself, not to a pooler.
func Up(ctx context.Context, config *pgx.ConnConfig, steps fs.FS, logger *slog.Logger) (ran int, err error) {
	err = pglock.Migrate(ctx, config, "bills", func(ctx context.Context) (err error) {
		db := stdlib.OpenDB(*config)
		defer func() { err = errors.Join(err, db.Close()) }()
		ran, err = up(ctx, db, steps)
		return err
	}, &pglock.MigrateOptions{Options: pglock.Options{Logger: logger}})
	return ran, err
}

// up is what an application without a lock would do.
func up(ctx context.Context, db *sql.DB, steps fs.FS) (int, error) {
	provider, err := goose.NewProvider(goose.DialectPostgres, db, steps)
	if err != nil {
		return 0, fmt.Errorf("steps: %w", err)
	}
	results, err := provider.Up(ctx)
	return len(results), err
}
