// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/examples/migrations"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

const patience = time.Minute

var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Shared(m, &server).Run()) }

// logger goes to the test, with the records of the lock.
func logger(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func steps(t *testing.T) fs.FS {
	t.Helper()
	steps, err := migrations.Steps()
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

func config(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func query[T any](t *testing.T, url, statement string) (answer T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(t.Context(), statement).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// Three replicas start at once on an empty database. Without the lock goose's own table is made three times at once, and two of them fail.
func TestReplicasThatStartAtOnceMigrateOnce(t *testing.T) {
	url := server.Database(t)
	var work sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range 3 {
		work.Go(func() {
			ran, err := migrations.Up(t.Context(), config(t, url), steps(t), logger(t))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			total += ran
		})
	}
	work.Wait()
	if total != 2 {
		t.Errorf("%d steps ran on all replicas together, want each of the 2 once", total)
	}
	if bills := query[int](t, url, "SELECT count(*) FROM bills"); bills != 1 {
		t.Errorf("%d bills, want the one of the second step", bills)
	}
}

// slow is a step that waits until the test holds a lock no more that it took before.
func slow(key int) fs.FS {
	return fstest.MapFS{
		"00001_first.sql": {Data: []byte("-- +goose Up\nCREATE TABLE first (id bigint);\n")},
		"00002_slow.sql":  {Data: fmt.Appendf(nil, "-- +goose Up\nCREATE TABLE second (id bigint);\nSELECT pg_advisory_xact_lock(%d);\n", key)},
	}
}

// The replica that migrates loses its lock in the middle of a step, since an administrator ends the session of the lock. The step is broken off and undone, the error
// says that the lock was lost, and the next replica does the step.
func TestAMigrationThatLosesItsLockStopsAndIsDoneByTheNext(t *testing.T) {
	url := server.Database(t)
	admin, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	const gate = 4711
	exec := func(statement string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(fmt.Sprintf("SELECT pg_advisory_lock(%d)", gate))
	done := make(chan error, 1)
	go func() {
		_, err := migrations.Up(t.Context(), config(t, url), slow(gate), logger(t))
		done <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !query[bool](t, url, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)") {
		if ctx.Err() != nil {
			t.Fatal("the second step did not begin")
		}
	}
	// The session of the lock, not that of the migration.
	exec(fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = %d::bigint::bit(32)::bigint::oid",
		pglock.KeyHash(driver.Key{Prefix: "migrations:", Name: "bills"})))
	err = <-done
	if !errors.Is(err, lock.ErrLost) {
		t.Fatalf("error is %v, want that the lock was lost", err)
	}
	if query[bool](t, url, "SELECT to_regclass('second') IS NOT NULL") {
		t.Error("the step that was broken off is still there")
	}
	exec(fmt.Sprintf("SELECT pg_advisory_unlock(%d)", gate))
	ran, err := migrations.Up(t.Context(), config(t, url), slow(gate), logger(t))
	if err != nil || ran != 1 {
		t.Errorf("the next replica ran %d steps (%v), want the one that was undone", ran, err)
	}
}

func TestAStepThatFailsIsToldAndFreesTheLock(t *testing.T) {
	url := server.Database(t)
	broken := fstest.MapFS{"00001_broken.sql": {Data: []byte("-- +goose Up\nCREATE TABLE t (id nosuchtype);\n")}}
	for range 2 {
		_, err := migrations.Up(t.Context(), config(t, url), broken, logger(t))
		if err == nil || !strings.Contains(err.Error(), "nosuchtype") {
			t.Fatalf("error is %v, want that of the step", err)
		}
	}
}
