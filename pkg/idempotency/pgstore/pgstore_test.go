// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/idempotencytest"
	"github.com/lockstead/lockstead/pkg/idempotency/pgstore"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

var server *pgtest.Server

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Shared(m, &server)) }

const patience = 30 * time.Second

func newPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func newStore(t *testing.T, pool *pgxpool.Pool, options *pgstore.Options) *pgstore.Store {
	t.Helper()
	store, err := pgstore.New(pool, options)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func run(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestConformance(t *testing.T) {
	url := server.Database(t)
	run(t, newPool(t, url), pgstore.Schema(""))
	const limit = 100_000
	idempotencytest.Run(t, idempotencytest.Harness{
		MaxResponse: limit,
		NewStore: func(t *testing.T) idempotency.Store {
			return newStore(t, newPool(t, url), &pgstore.Options{MaxResponse: limit})
		},
	})
}

func TestCheckGivesTheSQLToRun(t *testing.T) {
	for name, tc := range map[string]struct{ before, problem string }{
		"no table":           {"SELECT 1", "does not exist"},
		"a column missing":   {"ALTER TABLE app.keys DROP COLUMN owner", "column owner is missing"},
		"another type":       {"ALTER TABLE app.keys DROP COLUMN state, ADD COLUMN state text", "column state is text, want smallint"},
		"another collation":  {`ALTER TABLE app.keys ALTER COLUMN token TYPE text COLLATE "default"`, "does not sort"},
		"no unique key":      {"ALTER TABLE app.keys DROP CONSTRAINT keys_pkey", "column key is not unique"},
		"two things at once": {"ALTER TABLE app.keys DROP COLUMN owner, DROP COLUMN key", "column key is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, server.Database(t))
			store := newStore(t, pool, &pgstore.Options{Table: "app.keys"})
			run(t, pool, "CREATE SCHEMA app")
			if name != "no table" {
				run(t, pool, pgstore.Schema("app.keys"))
				if err := store.Check(t.Context()); err != nil {
					t.Fatalf("of Schema: %v", err)
				}
			}
			run(t, pool, tc.before)
			err := store.Check(t.Context())
			var wrong *pgstore.SchemaError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tc.problem) {
				t.Fatalf("Check: %v, want %q", err, tc.problem)
			}
			run(t, pool, wrong.Remedy)
			if err := store.Check(t.Context()); err != nil {
				t.Errorf("after the remedy: %v", err)
			}
			key, claim := newKey(), newClaim()
			if r, err := store.Begin(t.Context(), key, claim); err != nil || !r.Owned(claim.Ownership) {
				t.Errorf("after the remedy Begin returns %+v, %v", r, err)
			}
		})
	}
}

func newKey() (key idempotency.Key) {
	_, _ = rand.Read(key[:])
	return key
}

func newClaim() idempotency.Claim {
	return idempotency.Claim{Ownership: idempotency.Ownership{Owner: rand.Text()}, Lease: time.Minute, Retention: time.Hour}
}

func TestSweepDeletesWhatIsOver(t *testing.T) {
	pool := newPool(t, server.Database(t))
	run(t, pool, pgstore.Schema(""))
	store := newStore(t, pool, nil)
	for range 5 {
		if _, err := store.Begin(t.Context(), newKey(), newClaim()); err != nil {
			t.Fatal(err)
		}
	}
	kept := newKey()
	if _, err := store.Begin(t.Context(), kept, newClaim()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "UPDATE idempotency_records SET expires_at = now() - interval '1 second' WHERE key <> $1", kept[:]); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{3, 2, 0} {
		if n, err := store.Sweep(t.Context(), 3); err != nil || n != want {
			t.Errorf("Sweep: %d, %v, want %d", n, err, want)
		}
	}
	if r, err := store.Get(t.Context(), kept); err != nil || r.State != idempotency.InFlight {
		t.Errorf("the live record: %+v, %v", r, err)
	}
	var invalid *idempotency.InvalidError
	if _, err := store.Sweep(t.Context(), 0); !errors.As(err, &invalid) {
		t.Errorf("Sweep(0): %v", err)
	}
}

func TestRecordsSurviveARestartOfTheServer(t *testing.T) {
	own := pgtest.Start(t, &pgtest.Options{CrashSafe: true})
	pool := newPool(t, own.Database(t))
	run(t, pool, pgstore.Schema(""))
	store := newStore(t, pool, nil)
	key, claim := newKey(), newClaim()
	if _, err := store.Begin(t.Context(), key, claim); err != nil {
		t.Fatal(err)
	}
	own.Kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := store.Extend(ctx, key, claim.Ownership, time.Minute); err == nil || errors.Is(err, idempotency.ErrClaimLost) {
		t.Errorf("with the server down: %v, want a fault", err)
	}
	own.Run(t)
	if err := store.Complete(ctx, key, claim.Ownership, idempotency.Result{State: idempotency.Done, Response: []byte("answer"), Retention: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if r, err := store.Get(ctx, key); err != nil || string(r.Response) != "answer" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	pool := newPool(t, server.Database(t))
	for name, options := range map[string]*pgstore.Options{
		"an injection": {Table: "x; DROP TABLE y"}, "upper case": {Table: "Records"}, "three parts": {Table: "a.b.c"}, "a negative": {MaxResponse: -1},
	} {
		var invalid *idempotency.InvalidError
		if _, err := pgstore.New(pool, options); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var invalid *idempotency.InvalidError
	if _, err := pgstore.New(nil, nil); !errors.As(err, &invalid) {
		t.Errorf("no pool: %v", err)
	}
}
