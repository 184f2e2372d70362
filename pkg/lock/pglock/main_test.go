// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

// patience is far longer than a healthy step takes.
const patience = 30 * time.Second

// longTTL does not run out within a test.
const longTTL = 10 * time.Minute

// server is shared by the tests that do not stop it.
var server *pgtest.Server

func TestMain(m *testing.M) {
	if locktest.HoldAsChild(openInChild) {
		return
	}
	os.Exit(pgtest.Shared(m, &server).Run())
}

func openInChild(url string) (driver.Driver, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	return pglock.New(context.Background(), config, nil)
}

var prefixes atomic.Int64

func newPrefix() string { return fmt.Sprintf("lk:{test/%d}:", prefixes.Add(1)) }

// install makes a database with the tables in it.
func install(t testing.TB, s *pgtest.Server) (url string) {
	t.Helper()
	url = s.Database(t)
	if err := pglock.Install(t.Context(), parse(t, url), ""); err != nil {
		t.Fatal(err)
	}
	return url
}

func parse(t testing.TB, url string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// open opens the store, without a clean-up: the suite closes what it opens.
func open(t testing.TB, url string, options *pglock.Options) *pglock.Driver {
	t.Helper()
	var o pglock.Options
	if options != nil {
		o = *options
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, err := pglock.New(ctx, parse(t, url), &o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// connect is a connection beside the driver's, as an administrator has one.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

const prefix = "lk:{test/own}:"

func request(name string) driver.AcquireRequest {
	return driver.AcquireRequest{Key: driver.Key{Prefix: prefix, Name: name}, ID: newID(), TTL: longTTL, Owner: "test", OnLost: func(error) {}}
}

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

func mustAcquire(t testing.TB, d *pglock.Driver, req driver.AcquireRequest) driver.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	grant, err := d.Acquire(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return grant
}
