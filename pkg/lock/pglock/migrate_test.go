// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
)

// Replicas that start at once, on a database without any tables of ours, migrate one after the other.
func TestReplicasMigrateOneAfterTheOther(t *testing.T) {
	url := server.Database(t)
	admin := connect(t, url)
	var work sync.WaitGroup
	var mu sync.Mutex
	inside, runs := 0, 0
	for range 4 {
		work.Go(func() {
			err := pglock.Migrate(t.Context(), parse(t, url), "billing", func(ctx context.Context) error {
				mu.Lock()
				inside, runs = inside+1, runs+1
				if inside != 1 {
					t.Errorf("%d replicas migrate at one time", inside)
				}
				mu.Unlock()
				// A statement of the migration, on a connection of its own.
				_, err := connect(t, url).Exec(ctx, "CREATE TABLE IF NOT EXISTS bills (id bigint PRIMARY KEY)")
				mu.Lock()
				defer mu.Unlock()
				inside--
				return err
			}, nil)
			if err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if runs != 4 {
		t.Errorf("%d replicas migrated, want 4", runs)
	}
	var rows int
	if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM lockstead.locks").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows of locks are left (%v)", rows, err)
	}
}

func TestAMigrationThatCannotRunSaysWhy(t *testing.T) {
	url := install(t, server)
	admin := connect(t, url)
	config := parse(t, url)
	never := func(context.Context) error { t.Error("the migration ran"); return nil }
	failed := errors.New("the third step failed")
	started, done := make(chan struct{}), make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		err := pglock.Migrate(t.Context(), config, "billing", func(context.Context) error { close(started); <-done; return failed }, nil)
		if !errors.Is(err, failed) {
			t.Errorf("error is %v, want that of the function", err)
		}
	})
	await(t, "the first migration", started)
	err := pglock.Migrate(t.Context(), config, "billing", never, &pglock.MigrateOptions{Wait: 100 * time.Millisecond, SkipInstall: true})
	if timeout, ok := errors.AsType[*lock.WaitTimeoutError](err); !ok || !errors.Is(err, lock.ErrHeld) {
		t.Errorf("error is %v (%v), want the end of the wait", err, timeout)
	}
	close(done)
	work.Wait()
	for want, call := range map[string]func() error{
		"name":   func() error { return pglock.Migrate(t.Context(), config, "", never, nil) },
		"fn":     func() error { return pglock.Migrate(t.Context(), config, "billing", nil, nil) },
		"config": func() error { return pglock.Migrate(t.Context(), nil, "billing", never, nil) },
		"MigrateOptions.Wait": func() error {
			return pglock.Migrate(t.Context(), config, "billing", never, &pglock.MigrateOptions{Wait: -1})
		},
		"Schema": func() error {
			return pglock.Migrate(t.Context(), config, "billing", never, &pglock.MigrateOptions{Options: pglock.Options{Schema: `"`}})
		},
	} {
		if option, ok := errors.AsType[*driver.OptionError](call()); !ok || option.Option != want {
			t.Errorf("error is %v, want an *driver.OptionError for %s", option, want)
		}
	}
	if err := pglock.Migrate(t.Context(), config, "billing", never, &pglock.MigrateOptions{TTL: -1}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("a negative TTL: %v", err)
	}
	eventually(t, "the end of the sessions", func() bool { return sessions(t, admin) == 0 })
}

// The session of the lock is ended in the middle of a migration: its context ends, and the error says that the migration was not alone for all of its time.
func TestAMigrationIsToldThatItsLockIsLost(t *testing.T) {
	url := install(t, server)
	admin := connect(t, url)
	err := pglock.Migrate(t.Context(), parse(t, url), "billing", func(ctx context.Context) error {
		terminateHolder(t, admin)
		await(t, "the end of the context", ctx.Done())
		return context.Cause(ctx)
	}, nil)
	if _, ok := errors.AsType[*pglock.SessionEndedError](err); !ok || !errors.Is(err, lock.ErrLost) {
		t.Errorf("error is %v, want a loss by the end of the session", err)
	}
	if err := pglock.Migrate(t.Context(), parse(t, url), "billing", func(context.Context) error { return nil }, nil); err != nil {
		t.Errorf("the next migration: %v", err)
	}
}
