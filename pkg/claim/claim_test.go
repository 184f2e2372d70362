// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/lockstead/lockstead/pkg/claim"
	"github.com/lockstead/lockstead/pkg/lock/clock/clocktest"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

type job struct {
	ID   int64  `db:"id"`
	Name string `db:"name"`
}

// bench is one database with a table of jobs, seen through one of the two adapters.
type bench struct {
	t    *testing.T
	ctx  context.Context
	pool *pgxpool.Pool
	db   claim.Querier
	// begin starts a transaction of the adapter's kind.
	begin func() (tx claim.Querier, commit, rollback func() error)
}

var adapters = map[string]func(*bench, string){
	"pgx": func(b *bench, _ string) {
		b.db = claim.Pgx(b.pool)
		b.begin = func() (claim.Querier, func() error, func() error) {
			tx, err := b.pool.Begin(b.ctx)
			b.must(err)
			return claim.Pgx(tx), func() error { return tx.Commit(b.ctx) }, func() error { return tx.Rollback(b.ctx) }
		}
	},
	"database/sql": func(b *bench, url string) {
		db, err := sql.Open("pgx", url)
		b.must(err)
		b.t.Cleanup(func() { _ = db.Close() })
		b.db = claim.SQL(db)
		b.begin = func() (claim.Querier, func() error, func() error) {
			tx, err := db.BeginTx(b.ctx, nil)
			b.must(err)
			return claim.SQL(tx), tx.Commit, tx.Rollback
		}
	},
}

func onBothAdapters(t *testing.T, test func(b *bench)) {
	for name, adapter := range adapters {
		t.Run(name, func(t *testing.T) {
			url := server.Database(t)
			b := newBench(t, url)
			adapter(b, url)
			b.createJobs()
			test(b)
		})
	}
}

func newBench(t *testing.T, url string) *bench {
	b := &bench{t: t}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	b.ctx = ctx
	pool, err := pgxpool.New(ctx, url)
	b.must(err)
	t.Cleanup(pool.Close)
	b.pool = pool
	return b
}

func (b *bench) createJobs() {
	b.t.Helper()
	b.exec(`CREATE TABLE jobs (id bigint PRIMARY KEY, name text NOT NULL DEFAULT '')`)
	b.exec(b.table(nil).DDL())
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) exec(statement string, args ...any) {
	b.t.Helper()
	for one := range strings.SplitSeq(statement, ";\n") {
		if strings.TrimSpace(one) != "" {
			_, err := b.pool.Exec(b.ctx, one, args...)
			b.must(err)
		}
	}
}

func (b *bench) number(query string, args ...any) int64 {
	b.t.Helper()
	var n int64
	b.must(b.pool.QueryRow(b.ctx, query, args...).Scan(&n))
	return n
}

func (b *bench) table(options *claim.Options[job]) *claim.Table[job] {
	b.t.Helper()
	table, err := claim.New(b.db, claim.Relation{Name: "jobs", Key: []string{"id"}}, options)
	b.must(err)
	return table
}

func (b *bench) claim(table *claim.Table[job], n, want int) []*claim.Claim[job] {
	b.t.Helper()
	claims, err := table.Claim(b.ctx, n, time.Minute)
	b.must(err)
	if len(claims) != want {
		b.t.Fatalf("claimed %d rows, want %d", len(claims), want)
	}
	return claims
}

// expire lets the claims run out as if their time had passed on the server.
func (b *bench) expire() { b.exec(`UPDATE jobs SET locked_until = clock_timestamp() - interval '1 s'`) }

func (b *bench) wantLost(err error) {
	b.t.Helper()
	if lost, ok := errors.AsType[*claim.LostError](err); !ok || !errors.Is(err, claim.ErrLost) || lost.Reason != claim.LossNotHolder {
		b.t.Fatalf("error is %v, want a LostError because the claim is not the holder's", err)
	}
}

func TestRowsAreClaimedOnceInOrderOfTheirTime(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		b.exec(`INSERT INTO jobs (id, run_at) SELECT i, now() - make_interval(secs => 10 - i / 2) FROM generate_series(1, 6) i`)
		b.exec(`INSERT INTO jobs (id, run_at) VALUES (7, now() + interval '1 h'), (8, NULL)`)
		table := b.table(nil)
		b.must(table.Check(b.ctx))
		first, rest := b.claim(table, 4, 4), b.claim(table, 10, 2)
		for i, c := range append(first, rest...) {
			if c.Row().ID != int64(i+1) || c.Fence() != 1 || c.Attempt() != 1 || !c.Valid() {
				t.Errorf("claim %d is of row %d with fence %d and attempt %d", i+1, c.Row().ID, c.Fence(), c.Attempt())
			}
		}
		b.claim(table, 10, 0)
	})
}

func TestARowThatExpiresIsClaimedAgainAndItsOldClaimIsRefused(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		b.exec(`CREATE TABLE effects (id bigint)`)
		b.exec(`INSERT INTO jobs (id) VALUES (1)`)
		table := b.table(nil)
		old := b.claim(table, 1, 1)[0]
		b.expire()
		b.wantLost(old.Extend(b.ctx, 0))
		if lost := context.Cause(old.Context()); !errors.Is(lost, claim.ErrLost) {
			t.Errorf("the context ended with %v", lost)
		}
		fresh := b.claim(table, 1, 1)[0]
		if fresh.Fence() != 2 || fresh.Attempt() != 2 {
			t.Errorf("fence %d and attempt %d, want 2 and 2", fresh.Fence(), fresh.Attempt())
		}
		tx, _, rollback := b.begin()
		_, err := tx.Exec(b.ctx, `INSERT INTO effects VALUES (1)`)
		b.must(err)
		b.wantLost(old.Complete(b.ctx, tx))
		b.must(rollback())
		b.wantLost(old.Delete(b.ctx, b.db))
		b.wantLost(old.RescheduleIn(b.ctx, b.db, time.Hour))
		b.wantLost(old.ReleaseAfter(b.ctx, time.Hour))
		if n := b.number(`SELECT count(*) FROM effects`); n != 0 {
			t.Errorf("%d effects of the stale claim", n)
		}
		b.must(fresh.Extend(b.ctx, 2*time.Minute))
		tx, commit, _ := b.begin()
		b.must(fresh.Complete(b.ctx, tx))
		_, err = tx.Exec(b.ctx, `INSERT INTO effects VALUES (2)`)
		b.must(err)
		b.must(commit())
		b.must(fresh.Release(b.ctx))
		if n := b.number(`SELECT count(*) FROM jobs WHERE run_at IS NULL AND lock_token IS NULL AND fence = 2`); n != 1 {
			t.Error("the row is not completed")
		}
	})
}

func TestRowsAreGivenBack(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		b.exec(`INSERT INTO jobs (id) VALUES (1)`)
		table := b.table(&claim.Options[job]{MaxAttempts: 2})
		b.must(b.claim(table, 1, 1)[0].Release(b.ctx))
		c := b.claim(table, 1, 1)[0]
		if c.Attempt() != 1 || c.Fence() != 2 {
			t.Errorf("attempt %d and fence %d after a release, want 1 and 2", c.Attempt(), c.Fence())
		}
		b.must(c.ReleaseAfter(b.ctx, time.Hour))
		b.claim(table, 1, 0)
		b.exec(`UPDATE jobs SET run_at = now()`)
		b.must(b.claim(table, 1, 1)[0].ReleaseAfter(b.ctx, 0))
		b.claim(table, 1, 0)
		rows, err := table.Exhausted(b.ctx, 10)
		b.must(err)
		if len(rows) != 1 || rows[0].ID != 1 {
			t.Errorf("exhausted are %v, want row 1", rows)
		}
	})
}

func TestATransactionThatIsRolledBackLeavesTheClaim(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		b.exec(`INSERT INTO jobs (id) VALUES (1)`)
		table := b.table(nil)
		c := b.claim(table, 1, 1)[0]
		tx, _, rollback := b.begin()
		b.must(c.RescheduleAt(b.ctx, tx, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)))
		b.must(rollback())
		b.must(c.Release(b.ctx))
		b.claim(table, 1, 1)
	})
}

func TestARowThatDoesNotFitDoesNotStopTheOthers(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		b.exec(`ALTER TABLE jobs ALTER COLUMN name DROP NOT NULL`)
		b.exec(`INSERT INTO jobs (id, name) VALUES (1, NULL), (2, 'a'), (3, 'b')`)
		table := b.table(nil)
		b.claim(table, 3, 2)
		b.expire()
		b.exec(`DELETE FROM jobs WHERE id > 1`)
		if _, err := table.Claim(b.ctx, 3, time.Minute); errors.As(err, new(*claim.RowError)) == false {
			t.Errorf("error is %v, want a RowError", err)
		}
	})
}

func TestALockedRowMakesAnExtensionFailAndNotTheClaim(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		b.exec(`INSERT INTO jobs (id) VALUES (1)`)
		c := b.claim(b.table(nil), 1, 1)[0]
		tx, _, rollback := b.begin()
		_, err := tx.Exec(b.ctx, `UPDATE jobs SET name = 'x'`)
		b.must(err)
		if err := c.Extend(b.ctx, 0); !errors.As(err, new(*claim.StoreError)) || !c.Valid() {
			t.Errorf("error is %v, claim valid: %t", err, c.Valid())
		}
		b.must(rollback())
		b.must(c.Extend(b.ctx, 0))
	})
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		b.exec(`ALTER TABLE jobs DROP COLUMN fence, DROP COLUMN lock_token, ADD COLUMN lock_token text, ALTER COLUMN attempts DROP NOT NULL`)
		err := b.table(nil).Check(b.ctx)
		broken, ok := errors.AsType[*claim.SchemaError](err)
		if !ok || !errors.Is(err, claim.ErrSchema) || len(broken.Problems) != 3 {
			t.Fatalf("error is %v, want a SchemaError with three problems", err)
		}
		for _, want := range []string{`ALTER TABLE "jobs" ADD COLUMN "fence" bigint NOT NULL DEFAULT 0;`, `column "lock_token" has type text, not uuid`, `column "attempts" accepts NULL`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in: %v", want, err)
			}
		}
		b.exec(`DROP TABLE jobs`)
		if err := b.table(nil).Check(b.ctx); !errors.Is(err, claim.ErrSchema) {
			t.Errorf("error without a table is %v", err)
		}
		if _, err := b.table(nil).Claim(b.ctx, 1, time.Minute); !errors.As(err, new(*claim.StoreError)) || !strings.Contains(err.Error(), "Table.Check") {
			t.Errorf("claim without a table: %v", err)
		}
	})
}

func TestNamesAreTakenAsTheyAre(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		b.exec(`CREATE SCHEMA "my.schema"`)
		b.exec(`CREATE TABLE "my.schema"."Jobs; --" (tenant text, "no" int, PRIMARY KEY (tenant, "no"))`)
		type row struct {
			Tenant string `db:"tenant"`
			No     int    `db:"no"`
		}
		table, err := claim.New(b.db, claim.Relation{Schema: "my.schema", Name: "Jobs; --", Key: []string{"tenant", "no"}},
			&claim.Options[row]{Where: claim.Where("tenant = $1 -- only this", "a")})
		b.must(err)
		b.exec(table.DDL())
		b.must(table.Check(b.ctx))
		b.exec(`INSERT INTO "my.schema"."Jobs; --" (tenant, "no") VALUES ('a', 1), ('a', 2), ('b', 1)`)
		claims, err := table.Claim(b.ctx, 10, time.Minute)
		b.must(err)
		if len(claims) != 2 || claims[1].Row() != (row{"a", 2}) {
			t.Fatalf("claimed %d rows", len(claims))
		}
		b.must(claims[1].Delete(b.ctx, b.db))
		if n := b.number(`SELECT count(*) FROM "my.schema"."Jobs; --"`); n != 2 {
			t.Errorf("%d rows are left, want 2", n)
		}
	})
}

func TestTheContextEndsBeforeTheServersTime(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		b.exec(`INSERT INTO jobs (id) VALUES (1)`)
		hand := &clocktest.Hand{}
		c := b.claim(b.table(&claim.Options[job]{Clock: hand}), 1, 1)[0]
		hand.Advance(time.Minute - 2*600*time.Millisecond - 1)
		if !c.Valid() {
			t.Fatal("the claim ended early")
		}
		hand.Advance(1)
		if c.Valid() || !errors.Is(context.Cause(c.Context()), claim.ErrLost) {
			t.Fatalf("the claim is valid past its deadline, cause %v", context.Cause(c.Context()))
		}
		// Nobody has claimed the row since, so nobody else did the work.
		b.must(c.Complete(b.ctx, b.db))
	})
}

func TestAServerThatRestartsKeepsTheClaims(t *testing.T) {
	own := pgtest.Start(t, &pgtest.Options{CrashSafe: true})
	b := newBench(t, own.URL("postgres"))
	b.db = claim.Pgx(b.pool)
	b.createJobs()
	table := b.table(nil)
	b.exec(`INSERT INTO jobs (id) VALUES (1), (2)`)
	c := b.claim(table, 1, 1)[0]
	own.Kill(t)
	if err := c.Extend(b.ctx, 0); !errors.As(err, new(*claim.StoreError)) || !c.Valid() {
		t.Errorf("error is %v, claim valid: %t", err, c.Valid())
	}
	if _, err := table.Claim(b.ctx, 1, time.Minute); !errors.As(err, new(*claim.StoreError)) {
		t.Errorf("claim from a dead server: %v", err)
	}
	own.Run(t)
	b.must(c.Extend(b.ctx, 0))
	b.claim(table, 2, 1)
	b.must(c.Complete(b.ctx, b.db))
}
