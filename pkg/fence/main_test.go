// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/fence"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

// patience is far longer than any healthy step takes.
const patience = 30 * time.Second

var server *pgtest.Server

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Shared(m, &server)) }

var orders = fence.Update{Table: "public.orders", Set: []string{"state"}, Key: []string{"id"}}

// bench is a database with one order, seen through one kind of client.
type bench struct {
	t   *testing.T
	ctx context.Context
	db  fence.Execer
	// begin starts a transaction of the client's kind.
	begin func() (tx fence.Execer, end func(commit bool) error)
	pool  *pgxpool.Pool
}

var clients = map[string]func(b *bench, url string){
	"pgx": func(b *bench, _ string) {
		b.db = fence.Pgx(b.pool)
		b.begin = func() (fence.Execer, func(bool) error) {
			tx, err := b.pool.Begin(b.ctx)
			b.must(err)
			return fence.Pgx(tx), func(commit bool) error {
				if commit {
					return tx.Commit(b.ctx)
				}
				return tx.Rollback(b.ctx)
			}
		}
	},
	"database/sql": func(b *bench, url string) {
		db, err := sql.Open("pgx", url)
		b.must(err)
		b.t.Cleanup(func() { _ = db.Close() })
		b.db = db
		b.begin = func() (fence.Execer, func(bool) error) {
			tx, err := db.BeginTx(b.ctx, nil)
			b.must(err)
			return tx, func(commit bool) error {
				if commit {
					return tx.Commit()
				}
				return tx.Rollback()
			}
		}
	},
}

func onBothClients(t *testing.T, test func(b *bench)) {
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			url := server.Database(t)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			t.Cleanup(cancel)
			b := &bench{t: t, ctx: ctx}
			pool, err := pgxpool.New(ctx, url)
			b.must(err)
			t.Cleanup(pool.Close)
			b.pool = pool
			client(b, url)
			b.exec(`CREATE TABLE orders (id text PRIMARY KEY, state text NOT NULL)`)
			b.exec(`ALTER TABLE orders ADD COLUMN fence text COLLATE "C" NOT NULL DEFAULT ''`)
			b.exec(`INSERT INTO orders (id, state) VALUES ('42', 'new')`)
			test(b)
		})
	}
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) exec(statement string) {
	b.t.Helper()
	_, err := b.pool.Exec(b.ctx, statement)
	b.must(err)
}

func (b *bench) wantState(want string) {
	b.t.Helper()
	var got string
	if err := b.pool.QueryRow(b.ctx, `SELECT state FROM orders WHERE id = '42'`).Scan(&got); err != nil || got != want {
		b.t.Errorf("the row says %q, %v, want %q", got, err, want)
	}
}
