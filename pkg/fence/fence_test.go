// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/fence"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

var server *pgtest.Server

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Shared(m, &server)) }

var orders = fence.Update{Table: "public.orders", Set: []string{"state"}, Key: []string{"id"}}

// conn is a connection of pgx as a fence.Execer. With database/sql that is a *sql.DB as it is.
type conn struct{ *pgx.Conn }

func (c conn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := c.Exec(ctx, query, args...)
	return driver.RowsAffected(tag.RowsAffected()), err
}

var _ fence.Execer = (*sql.DB)(nil)

func connect(t *testing.T, database string) conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return conn{c}
}

// openOrders makes a table with one row.
func openOrders(t *testing.T) (db conn, database string) {
	t.Helper()
	database = server.Database(t)
	db = connect(t, database)
	for _, statement := range []string{
		`CREATE TABLE orders (id text PRIMARY KEY, state text NOT NULL)`,
		`ALTER TABLE orders ADD COLUMN fence text COLLATE "C" NOT NULL DEFAULT ''`,
		`INSERT INTO orders (id, state) VALUES ('42', 'new')`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return db, database
}

func wantState(t *testing.T, db conn, want string) {
	t.Helper()
	var got string
	if err := db.QueryRow(t.Context(), `SELECT state FROM orders WHERE id = '42'`).Scan(&got); err != nil || got != want {
		t.Errorf("the row says %q, %v, want %q", got, err, want)
	}
}

// The holder of a lock stops for longer than its TTL, another one is granted it and writes, and the first one goes on.
func TestAStaleHolderCannotOverwriteALaterOne(t *testing.T) {
	db, _ := openOrders(t)
	client, err := lock.New(memlock.New(nil), "test:", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	stale, err := client.TryAcquire(t.Context(), "order:42", 100*time.Millisecond, 0)
	if err != nil {
		t.Fatal(err)
	}
	write := func(h *lock.Handle, state string) error {
		return orders.Exec(t.Context(), db, h.Token(), []any{state}, []any{"42"})
	}
	if err := write(stale, "begun"); err != nil {
		t.Fatal(err)
	}
	later, err := client.TryAcquire(t.Context(), "order:42", time.Minute, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(later, "paid"); err != nil {
		t.Fatal(err)
	}
	err = write(stale, "cancelled")
	if refused, ok := errors.AsType[*fence.StaleError](err); !ok || !errors.Is(err, fence.ErrStale) || refused.Token != stale.Token() {
		t.Errorf("the stale holder's write: %v", err)
	}
	wantState(t, db, "paid")
	// The holder may write again.
	if err := write(later, "sent"); err != nil {
		t.Error(err)
	}
	wantState(t, db, "sent")
	if err := later.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// Tokens of every size are compared as tokens, not as texts of numbers or as signed numbers.
func TestTokensAreComparedAsTokens(t *testing.T) {
	db, _ := openOrders(t)
	growing := []lock.Token{
		{Sequence: 1}, {Sequence: 9}, {Sequence: 10}, {Sequence: math.MaxInt64}, {Sequence: math.MaxInt64 + 1}, {Epoch: 9}, {Epoch: 10},
		{Epoch: math.MaxUint64, Sequence: math.MaxUint64},
	}
	for i, token := range growing {
		if err := orders.Exec(t.Context(), db, token, []any{token.String()}, []any{"42"}); err != nil {
			t.Fatalf("token %s: %v", token, err)
		}
		for _, older := range growing[:i] {
			if err := orders.Exec(t.Context(), db, older, []any{"old"}, []any{"42"}); !errors.Is(err, fence.ErrStale) {
				t.Errorf("token %s after %s: %v", older, token, err)
			}
		}
		wantState(t, db, token.String())
	}
}

// Writers that meet at the row leave the value of the greatest token, whatever their order.
func TestTheGreatestTokenWins(t *testing.T) {
	db, database := openOrders(t)
	const writers = 20
	var work sync.WaitGroup
	for i := range writers {
		token := lock.Token{Epoch: 1, Sequence: uint64(i) + 1}
		own := connect(t, database)
		work.Go(func() {
			err := orders.Exec(t.Context(), own, token, []any{token.String()}, []any{"42"})
			if err != nil && (!errors.Is(err, fence.ErrStale) || token.Sequence == writers) {
				t.Errorf("token %s: %v", token, err)
			}
		})
	}
	work.Wait()
	wantState(t, db, lock.Token{Epoch: 1, Sequence: writers}.String())
}

func TestWhatIsNoName(t *testing.T) {
	for name, update := range map[string]fence.Update{
		"a quote":         {Table: `orders" SET`, Set: []string{"state"}, Key: []string{"id"}},
		"three parts":     {Table: "a.b.c", Set: []string{"state"}, Key: []string{"id"}},
		"an empty table":  {Set: []string{"state"}, Key: []string{"id"}},
		"an expression":   {Table: "orders", Set: []string{"state = 'x'; --"}, Key: []string{"id"}},
		"a bad key":       {Table: "orders", Set: []string{"state"}, Key: []string{"1=1 OR id"}},
		"a bad fence":     {Table: "orders", Set: []string{"state"}, Key: []string{"id"}, Column: "fence )"},
		"a name too long": {Table: strings.Repeat("x", 64), Set: []string{"state"}, Key: []string{"id"}},
		"nothing to set":  {Table: "orders", Key: []string{"id"}},
		"nothing to find": {Table: "orders", Set: []string{"state"}},
	} {
		if query, err := update.SQL(); err == nil {
			t.Errorf("%s was accepted: %s", name, query)
		}
	}
	if err := orders.Exec(t.Context(), nil, lock.Token{}, []any{"x"}, []any{"42"}); err == nil {
		t.Error("the zero token was accepted")
	}
	if err := orders.Exec(t.Context(), nil, lock.Token{Sequence: 1}, nil, []any{"42"}); err == nil {
		t.Error("a missing value was accepted")
	}
}
