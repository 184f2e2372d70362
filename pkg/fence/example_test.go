// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/fence"
	"github.com/lockstead/lockstead/pkg/lock"
)

// The statement can run by any means: it takes the values, the key and the text of the handle's token, and a write that changes no row was refused.
func ExampleUpdate_SQL() {
	query, err := fence.Update{Table: "orders", Set: []string{"state"}, Key: []string{"id"}}.SQL()
	if err != nil {
		panic(err)
	}
	fmt.Println(query)
	// Output: UPDATE "orders" SET "state" = $1, "fence" = $3 WHERE "id" = $2 AND "fence" COLLATE "C" <= $3
}

// With database/sql a *sql.DB or *sql.Tx is used as it is. The tokens here stand for those of two holders of one lock, lock.Handle.Token.
func ExampleUpdate_Exec() {
	ctx := context.Background()
	db, err := sql.Open("pgx", server.URL("postgres"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	exec := func(statement string) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			panic(err)
		}
	}
	exec(`CREATE TABLE reports (id bigint PRIMARY KEY, title text NOT NULL, fence text COLLATE "C" NOT NULL DEFAULT '')`)
	defer exec(`DROP TABLE reports`)
	exec(`INSERT INTO reports (id, title) VALUES (7, 'draft')`)

	first, second := lock.Token{Epoch: 1, Sequence: 4}, lock.Token{Epoch: 1, Sequence: 5}
	update := fence.Update{Table: "reports", Set: []string{"title"}, Key: []string{"id"}}
	fmt.Println("the second holder:", update.Exec(ctx, db, second, []any{"final"}, []any{7}))
	err = update.Exec(ctx, db, first, []any{"stale"}, []any{7})
	fmt.Println("the first, which has lost the lock:", errors.Is(err, fence.ErrStale))
	var title string
	if err := db.QueryRowContext(ctx, `SELECT title FROM reports`).Scan(&title); err != nil {
		panic(err)
	}
	fmt.Println(title)
	// Output:
	// the second holder: <nil>
	// the first, which has lost the lock: true
	// final
}

// With pgx the guarded write goes into the transaction of the rest of the work.
func ExamplePgx() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	exec := func(statement string) {
		if _, err := conn.Exec(ctx, statement); err != nil {
			panic(err)
		}
	}
	exec(`CREATE TABLE reports (id bigint PRIMARY KEY, title text NOT NULL, fence text COLLATE "C" NOT NULL DEFAULT '')`)
	defer exec(`DROP TABLE reports`)
	exec(`INSERT INTO reports (id, title) VALUES (7, 'draft')`)

	token := lock.Token{Epoch: 1, Sequence: 5} // of the handle
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		return fence.Update{Table: "reports", Set: []string{"title"}, Key: []string{"id"}}.Exec(ctx, fence.Pgx(tx), token, []any{"final"}, []any{7})
	})
	fmt.Println(err)
	// Output: <nil>
}
