// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

var server *pgtest.Server //nolint:gochecknoglobals // Set once by TestMain.

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(pgtest.Shared(m, &server))
}

// Records and locks are in the database of the orders.
func TestDuplicatesWithRecordsInPostgreSQL(t *testing.T) {
	url := server.Database(t)
	l, all := runLoad(t, "DATABASE_URL="+url, "REDIS_URL=", "ORDERS_LOCKS=database")
	countOrders(t, url, len(all))
	l.finish(all)
}

// Records are in a Redis of the application, and locks where a binding says.
func TestDuplicatesWithRecordsInRedis(t *testing.T) {
	url := server.Database(t)
	records := redistest.Start(t, &redistest.Options{Config: []string{"maxmemory-policy noeviction"}})
	l, all := runLoad(t, "DATABASE_URL="+url, "REDIS_URL=redis://admin:"+records.AdminPassword()+"@"+records.Addr()+"/0",
		"ORDERS_LOCKS=binding", "LOCKSTEAD_BINDING="+bindingDir(t))
	countOrders(t, url, len(all))
	l.finish(all)
}

// bindingDir is a folder as the operator's Secret for a LockNamespace on Redis is mounted.
func bindingDir(t *testing.T) string {
	t.Helper()
	const name, password, prefix = "lk-orders", "password-of-the-locks", "lk:{shop/orders}:"
	locks := redistest.Start(t, &redistest.Options{Users: []redisproto.User{{
		Name: name, PasswordHashes: []string{redisproto.PasswordHash(password)}, Rules: redisproto.TenantRules(prefix, binding.AccessFunctions),
	}}})
	locks.Prepare(t, prefix, redisproto.Epoch{Number: 1, MaxTTL: time.Hour, SelfArm: true})
	host, portText, err := net.SplitHostPort(locks.Addr())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	b := &binding.Binding{
		Type: binding.TypeRedis, LockNamespace: "shop/orders", Prefix: prefix, Instance: "locks", TTLDefault: 30 * time.Second, TTLMax: time.Hour,
		Redis: &binding.Redis{Host: host, Port: port, Username: name, Password: password, Access: binding.AccessFunctions},
	}
	entries, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for entry, value := range entries {
		if err := os.WriteFile(filepath.Join(dir, entry), value, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// countOrders wants every order once. Which it is can be told from its item and quantity.
func countOrders(t *testing.T, url string, want int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var orders, rows int
	if err := conn.QueryRow(t.Context(), `SELECT count(DISTINCT (item, quantity)), count(*) FROM orders`).Scan(&orders, &rows); err != nil {
		t.Fatal(err)
	}
	if orders != want || rows != want {
		t.Errorf("the table has %d rows of %d orders, want %d of each", rows, orders, want)
	}
}

func TestConfig(t *testing.T) {
	environment := map[string]string{"DATABASE_URL": "postgres://localhost/shop", "ORDERS_TOKENS": "ann=one, bob=two", "ORDERS_LEASE": "3s", "ORDERS_LOCKS": "database"}
	getenv := func(name string) string { return environment[name] }
	c, err := parseConfig(getenv)
	if err != nil || c.lease != 3*time.Second || !c.locksInDatabase || c.tokens["two"] != "bob" || c.addr != ":8080" {
		t.Errorf("config: %+v, %v", c, err)
	}
	for name, value := range map[string]string{"DATABASE_URL": "", "ORDERS_TOKENS": "ann", "ORDERS_LEASE": "long", "ORDERS_DRAIN": "-1s", "ORDERS_LOCKS": "memory"} {
		usual := environment[name]
		environment[name] = value
		if _, err := parseConfig(getenv); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%q: %v", name, value, err)
		}
		environment[name] = usual
	}
}
