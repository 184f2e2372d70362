// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/fence"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

// The holder of a lock stops for longer than its TTL, another one is granted it and writes, and the first one goes on.
func TestAStaleHolderCannotOverwriteALaterOne(t *testing.T) {
	onBothClients(t, func(b *bench) {
		t := b.t
		client, err := lock.New(memlock.New(nil), "test:", nil)
		b.must(err)
		t.Cleanup(func() { _ = client.Close(context.Background()) })
		stale, err := client.TryAcquire(b.ctx, "order:42", 100*time.Millisecond, 0)
		b.must(err)
		write := func(h *lock.Handle, state string) error {
			return orders.Exec(b.ctx, b.db, h.Token(), []any{state}, []any{"42"})
		}
		b.must(write(stale, "begun"))
		later, err := client.TryAcquire(b.ctx, "order:42", time.Minute, patience)
		b.must(err)
		b.must(write(later, "paid"))
		err = write(stale, "cancelled")
		if refused, ok := errors.AsType[*fence.StaleError](err); !ok || !errors.Is(err, fence.ErrStale) || refused.Token != stale.Token() {
			t.Errorf("the stale holder's write: %v", err)
		}
		b.wantState("paid")
		// The holder may write again.
		b.must(write(later, "sent"))
		b.wantState("sent")
		b.must(later.Release(b.ctx))
	})
}

// Tokens of every size are compared as tokens, not as texts of numbers or as signed numbers.
func TestTokensAreComparedAsTokens(t *testing.T) {
	onBothClients(t, func(b *bench) {
		growing := []lock.Token{
			{Sequence: 1}, {Sequence: 9}, {Sequence: 10}, {Sequence: math.MaxInt64}, {Sequence: math.MaxInt64 + 1}, {Epoch: 9}, {Epoch: 10},
			{Epoch: math.MaxUint64, Sequence: math.MaxUint64},
		}
		for i, token := range growing {
			if err := orders.Exec(b.ctx, b.db, token, []any{token.String()}, []any{"42"}); err != nil {
				b.t.Fatalf("token %s: %v", token, err)
			}
			for _, older := range growing[:i] {
				if err := orders.Exec(b.ctx, b.db, older, []any{"old"}, []any{"42"}); !errors.Is(err, fence.ErrStale) {
					b.t.Errorf("token %s after %s: %v", older, token, err)
				}
			}
			b.wantState(token.String())
		}
	})
}

// Writers that meet at the row leave the value of the greatest token, whatever their order.
func TestTheGreatestTokenWins(t *testing.T) {
	onBothClients(t, func(b *bench) {
		const writers = 20
		var work sync.WaitGroup
		for i := range writers {
			token := lock.Token{Epoch: 1, Sequence: uint64(i) + 1}
			work.Go(func() {
				err := orders.Exec(b.ctx, b.db, token, []any{token.String()}, []any{"42"})
				if err != nil && (!errors.Is(err, fence.ErrStale) || token.Sequence == writers) {
					b.t.Errorf("token %s: %v", token, err)
				}
			})
		}
		work.Wait()
		b.wantState(lock.Token{Epoch: 1, Sequence: writers}.String())
	})
}

// A guard that is rolled back has not happened; one that is committed counts for those that wait for the row meanwhile.
func TestTheGuardIsPartOfItsTransaction(t *testing.T) {
	onBothClients(t, func(b *bench) {
		older, newer := lock.Token{Sequence: 1}, lock.Token{Sequence: 2}
		write := func(db fence.Execer, token lock.Token, state string) error {
			return orders.Exec(b.ctx, db, token, []any{state}, []any{"42"})
		}
		tx, end := b.begin()
		b.must(write(tx, newer, "undone"))
		b.must(end(false))
		b.must(write(b.db, older, "older"))
		b.wantState("older")

		tx, end = b.begin()
		b.must(write(tx, newer, "newer"))
		late := make(chan error, 1)
		go func() { late <- write(b.db, older, "late") }()
		b.awaitWaiter()
		b.must(end(true))
		if err := <-late; !errors.Is(err, fence.ErrStale) {
			b.t.Errorf("a write that waited for one with a greater token: %v", err)
		}
		b.wantState("newer")
	})
}

// awaitWaiter waits until some session waits for a lock of a row.
func (b *bench) awaitWaiter() {
	b.t.Helper()
	for waiting := false; !waiting; {
		b.must(b.pool.QueryRow(b.ctx, `SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database())`).Scan(&waiting))
	}
}

func TestFaultsOfTheDatabaseAreNoStaleWrites(t *testing.T) {
	onBothClients(t, func(b *bench) {
		missing := orders
		missing.Set = []string{"colour"}
		err := missing.Exec(b.ctx, b.db, lock.Token{Sequence: 1}, []any{"red"}, []any{"42"})
		if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "public.orders") || !strings.Contains(err.Error(), "42703") {
			b.t.Errorf("a missing column: %v", err)
		}
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		if err := orders.Exec(ctx, b.db, lock.Token{Sequence: 1}, []any{"late"}, []any{"42"}); !errors.Is(err, context.Canceled) {
			b.t.Errorf("an ended context: %v", err)
		}
		b.wantState("new")
	})
}

func TestNamesAreTakenAsTheyAre(t *testing.T) {
	onBothClients(t, func(b *bench) {
		b.exec(`CREATE SCHEMA "My Schema"`)
		b.exec(`CREATE TABLE "My Schema"."Aufträge; --" ("no" int PRIMARY KEY, "the
state" text, "1=1 OR no" text COLLATE "C" NOT NULL DEFAULT '')`)
		b.exec(`INSERT INTO "My Schema"."Aufträge; --" VALUES (1, 'new'), (2, 'new')`)
		update := fence.Update{Table: "My Schema.Aufträge; --", Set: []string{"the\nstate"}, Key: []string{"no"}, Column: "1=1 OR no"}
		b.must(update.Exec(b.ctx, b.db, lock.Token{Sequence: 2}, []any{"paid"}, []any{1}))
		if err := update.Exec(b.ctx, b.db, lock.Token{Sequence: 1}, []any{"old"}, []any{1}); !errors.Is(err, fence.ErrStale) {
			b.t.Errorf("an older token: %v", err)
		}
		var written int
		b.must(b.pool.QueryRow(b.ctx, `SELECT count(*) FROM "My Schema"."Aufträge; --" WHERE (no, "the
state") IN ((1, 'paid'), (2, 'new'))`).Scan(&written))
		if written != 2 {
			b.t.Errorf("%d rows are as they should be, want 2", written)
		}
	})
}

func TestWhatIsNoUpdate(t *testing.T) {
	set, key := []string{"state"}, []string{"id"}
	for problem, update := range map[string]fence.Update{
		"Update.Table: \"orders\\\" SET\" contains a quote": {Table: `orders" SET`, Set: set, Key: key},
		"is not <table> or <schema>.<table>":                {Table: "a.b.c", Set: set, Key: key},
		"Update.Table: is empty":                            {Table: ".orders", Set: set, Key: key},
		"Update.Table: is empty; give":                      {Set: set, Key: key},
		"Update.Set: is empty":                              {Table: "orders", Set: []string{""}, Key: key},
		"Update.Key: \"i\\x00d\" contains NUL":              {Table: "orders", Set: set, Key: []string{"i\x00d"}},
		"Update.Column: \"f\\\"\" contains a quote":         {Table: "orders", Set: set, Key: key, Column: `f"`},
		"has 64 bytes":                                      {Table: strings.Repeat("x", 64), Set: set, Key: key},
		"at least one column in Set":                        {Table: "orders", Key: key},
		"and one in Key":                                    {Table: "orders", Set: set},
		`column "fence" has the token`:                      {Table: "orders", Set: []string{"fence"}, Key: key},
	} {
		if query, err := update.SQL(); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q, error %v, want one that says: %s", query, err, problem)
		}
	}
	if err := orders.Exec(t.Context(), nil, lock.Token{}, []any{"x"}, []any{"42"}); err == nil {
		t.Error("the zero token was accepted")
	}
	if err := orders.Exec(t.Context(), nil, lock.Token{Sequence: 1}, nil, []any{"42"}); err == nil {
		t.Error("a missing value was accepted")
	}
}
