// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestDataOutliveACrash(t *testing.T) {
	server := pgtest.Start(t, &pgtest.Options{CrashSafe: true})
	url := server.Database(t)
	conn := connect(t, url)
	for _, statement := range []string{"CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)"} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range []func(testing.TB){server.Kill, server.Stop} {
		end(t)
		if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
			t.Error("a session outlived its server")
		}
		_ = conn.Close(t.Context())
		server.Run(t)
		conn = connect(t, url)
		var n int
		if err := conn.QueryRow(t.Context(), "SELECT n FROM kept").Scan(&n); err != nil || n != 7 {
			t.Errorf("the row is %d, %v; want 7", n, err)
		}
	}
	_ = conn.Close(t.Context())
}

func TestDatabasesAreApart(t *testing.T) {
	server := pgtest.Start(t, nil)
	for range 2 {
		url := server.Database(t)
		conn := connect(t, url)
		if _, err := conn.Exec(t.Context(), "CREATE TABLE same (n int)"); err != nil {
			t.Error(err)
		}
		_ = conn.Close(t.Context())
	}
}

func TestPoolerPassesQueriesOn(t *testing.T) {
	server := pgtest.Start(t, nil)
	url := server.Database(t)
	for _, mode := range []string{"session", "transaction"} {
		conn, err := pgx.Connect(t.Context(), pgtest.At(t, url, server.StartPooler(t, mode))+"&default_query_exec_mode=simple_protocol")
		if err != nil {
			t.Fatal(err)
		}
		var one int
		if err := conn.QueryRow(t.Context(), "SELECT 1").Scan(&one); err != nil || one != 1 {
			t.Errorf("mode %s: %d, %v", mode, one, err)
		}
		_ = conn.Close(t.Context())
	}
}
