// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

// refused opens the store, which must fail with a fault for the reason.
func refused(t *testing.T, url, reason string, options *pglock.Options) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, err := pglock.New(ctx, parse(t, url), options)
	if err == nil {
		_ = d.Close()
		t.Fatalf("opened, want a refusal for %q", reason)
	}
	wantFault(t, err, driver.ErrUnavailable, reason)
	return err
}

func wantFault(t *testing.T, err, outcome error, reason string) {
	t.Helper()
	fault, ok := errors.AsType[*driver.StoreError](err)
	if !ok || !errors.Is(err, outcome) || fault.Reason != reason {
		t.Fatalf("error is %v, want one that matches %q for the reason %q", err, outcome, reason)
	}
	if fault.Remedy == "" {
		t.Errorf("error %v says nothing of what to do", err)
	}
}

// sessions counts those of a database, but for the one that asks.
func sessions(t *testing.T, admin *pgx.Conn) (n int) {
	t.Helper()
	err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !ok() {
		if ctx.Err() != nil {
			t.Fatalf("%s did not happen within %s", what, patience)
		}
	}
}

func TestAPoolerIsRefused(t *testing.T) {
	database := install(t, server)
	for _, mode := range []string{"session", "transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			err := refused(t, pgtest.At(t, database, server.StartPooler(t, mode)), pglock.ReasonPooler, nil)
			pooler, ok := errors.AsType[*pglock.PoolerError](err)
			if !ok || pooler.Announced == pooler.Actual {
				t.Errorf("error is %v, want a *PoolerError with two numbers", err)
			}
		})
	}
}

func TestTablesThatDoNotFitAreRefused(t *testing.T) {
	database := server.Database(t)
	admin := connect(t, database)
	for name, tc := range map[string]struct{ change, want string }{
		"no schema":         {`DROP SCHEMA {s} CASCADE`, "there is no table epoch"},
		"no table":          {`DROP TABLE {s}.locks`, "there is no table locks"},
		"no column":         {`ALTER TABLE {s}.locks DROP COLUMN token`, "table locks has no column token bigint"},
		"another type":      {`ALTER TABLE {s}.locks ALTER COLUMN expires_at TYPE timestamp`, "column expires_at of table locks is timestamp without time zone, not timestamp with time zone"},
		"unlogged":          {`ALTER TABLE {s}.locks SET UNLOGGED`, "table locks is UNLOGGED"},
		"no primary key":    {`ALTER TABLE {s}.locks DROP CONSTRAINT locks_pkey`, "table locks has no primary key (prefix, name)"},
		"no sequence":       {`DROP SEQUENCE {s}.fence`, "there is no sequence fence"},
		"cyclic sequence":   {`ALTER SEQUENCE {s}.fence CYCLE`, "there is no sequence fence of type bigint that only grows, is logged, and has no cache"},
		"falling sequence":  {`DROP SEQUENCE {s}.fence; CREATE SEQUENCE {s}.fence INCREMENT BY -1`, "there is no sequence fence of type bigint that only grows, is logged, and has no cache"},
		"cached sequence":   {`ALTER SEQUENCE {s}.fence CACHE 10`, "is logged, and has no cache"},
		"view in its place": {`ALTER TABLE {s}.locks RENAME TO l; CREATE VIEW {s}.locks AS SELECT * FROM {s}.l`, "there is no table locks"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := pglock.Install(t.Context(), parse(t, database), name); err != nil {
				t.Fatal(err)
			}
			if _, err := admin.Exec(t.Context(), strings.ReplaceAll(tc.change, "{s}", `"`+name+`"`)); err != nil {
				t.Fatal(err)
			}
			err := refused(t, database, pglock.ReasonSchema, &pglock.Options{Schema: name})
			if schema, ok := errors.AsType[*pglock.SchemaError](err); !ok || schema.Schema != name || !strings.Contains(strings.Join(schema.Problems, "\n"), tc.want) {
				t.Errorf("error is %v, want a *SchemaError that says %q", err, tc.want)
			}
			eventually(t, "the end of the sessions", func() bool { return sessions(t, admin) == 0 })
		})
	}
}

func TestSchemaNamesAreQuotedOrRefused(t *testing.T) {
	database := server.Database(t)
	for _, name := range []string{"Übung", "a b", "select", `x'; DROP TABLE t; --`, "a.b", strings.Repeat("s", 63)} {
		if err := pglock.Install(t.Context(), parse(t, database), name); err != nil {
			t.Fatalf("schema %q: %v", name, err)
		}
		d := open(t, database, &pglock.Options{Schema: name})
		req := request("order:1")
		if _, err := d.Acquire(t.Context(), req); err != nil {
			t.Errorf("schema %q: %v", name, err)
		}
		if err := d.Release(t.Context(), driver.ReleaseRequest{Key: req.Key, ID: req.ID}); err != nil {
			t.Errorf("schema %q: %v", name, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{`a"b`, "a\x00b", "\xff", strings.Repeat("s", 64)} {
		_, err := pglock.SchemaSQL(name)
		installErr := pglock.Install(t.Context(), parse(t, database), name)
		_, openErr := pglock.New(t.Context(), parse(t, database), &pglock.Options{Schema: name})
		for _, err := range []error{err, installErr, openErr} {
			if option, ok := errors.AsType[*driver.OptionError](err); !ok || option.Option != "Schema" {
				t.Errorf("schema %q: error is %v, want an *driver.OptionError for Schema", name, err)
			}
		}
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	config := parse(t, server.URL("postgres"))
	for want, options := range map[string]pglock.Options{
		"Options.MaxTTL":         {MaxTTL: -1},
		"Options.AttemptTimeout": {AttemptTimeout: -time.Second},
		"Options.WaitSlice":      {WaitSlice: 1},
		"Options.MaxSessions":    {MaxSessions: -1},
	} {
		_, err := pglock.New(t.Context(), config, &options)
		if option, ok := errors.AsType[*driver.OptionError](err); !ok || option.Option != want {
			t.Errorf("error is %v, want an *driver.OptionError for %s", err, want)
		}
	}
	if _, err := pglock.New(t.Context(), config, &pglock.Options{MaxTTL: time.Second + 1}); err == nil {
		t.Error("a fraction of a microsecond was taken")
	}
	if _, err := pglock.New(t.Context(), nil, nil); err == nil {
		t.Error("no configuration was taken")
	}
}

// CREATE … IF NOT EXISTS fails when two run it at one moment.
func TestInstallOnManyReplicasAtOnce(t *testing.T) {
	database := server.Database(t)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			if err := pglock.Install(t.Context(), parse(t, database), ""); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	var rows int
	if err := connect(t, database).QueryRow(t.Context(), "SELECT count(*) FROM lockstead.epoch").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows of the epoch (%v), want 1", rows, err)
	}
}

// A role without rights, a wrong password, and a server that is not there: what to do is said, and never the password.
func TestFaultsOfTheConnectionTellNoSecret(t *testing.T) {
	database := install(t, server)
	admin := connect(t, database)
	const secret = "s3cr3t-of-the-role"
	if _, err := admin.Exec(t.Context(), "CREATE ROLE powerless LOGIN PASSWORD '"+secret+"'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Exec(t, "postgres", "DROP ROLE powerless") })
	as := func(user, password, address string) string {
		u, err := url.Parse(database)
		if err != nil {
			t.Fatal(err)
		}
		u.User, u.Host = url.UserPassword(user, password), address
		return u.String()
	}
	for name, tc := range map[string]struct{ url, reason string }{
		"no rights":      {as("powerless", secret, server.Addr()), pglock.ReasonPermission},
		"wrong password": {as("powerless", secret+"x", server.Addr()), pglock.ReasonAuthentication},
		"nobody there":   {as("powerless", secret, "127.0.0.1:1"), pglock.ReasonConnect},
		"no host":        {as("powerless", secret, "host.invalid:5432"), pglock.ReasonConnect},
	} {
		t.Run(name, func(t *testing.T) {
			if err := refused(t, tc.url, tc.reason, nil); strings.Contains(err.Error(), secret) {
				t.Errorf("the error has the password in it: %v", err)
			}
		})
	}
	if _, err := admin.Exec(t.Context(), `GRANT USAGE ON SCHEMA lockstead TO powerless; GRANT SELECT, INSERT, UPDATE, DELETE ON lockstead.locks TO powerless;
		GRANT SELECT, UPDATE ON lockstead.epoch TO powerless; GRANT USAGE ON SEQUENCE lockstead.fence TO powerless`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = admin.Exec(context.Background(), "DROP OWNED BY powerless") })
	d := open(t, as("powerless", secret, server.Addr()), nil)
	defer func() { _ = d.Close() }()
	cycle(t, d)
}

// cycle uses every call once.
func cycle(t *testing.T, d *pglock.Driver) {
	t.Helper()
	ctx := t.Context()
	req, next := request("order:1"), request("order:1")
	mustAcquire(t, d, req)
	if _, err := d.Renew(ctx, driver.RenewRequest{Key: req.Key, ID: req.ID, TTL: longTTL}); err != nil {
		t.Error(err)
	}
	if _, err := d.Pass(ctx, driver.PassRequest{From: req.ID, To: next}); err != nil {
		t.Error(err)
	}
	if page, err := d.List(ctx, driver.ListRequest{Prefix: req.Key.Prefix, Limit: 10}); err != nil || len(page.Held) != 1 {
		t.Errorf("list: %+v, %v", page, err)
	}
	if err := d.Release(ctx, driver.ReleaseRequest{Key: next.Key, ID: next.ID}); err != nil {
		t.Error(err)
	}
	mustAcquire(t, d, req)
	if _, err := d.ForceRelease(ctx, driver.ForceReleaseRequest{Key: req.Key}); err != nil {
		t.Error(err)
	}
	if holding, err := d.Inspect(ctx, req.Key); err != nil || holding.Held {
		t.Errorf("inspect: %+v, %v", holding, err)
	}
}

func TestWithoutTheRowOfTheEpochNothingIsGranted(t *testing.T) {
	database := install(t, server)
	admin := connect(t, database)
	d := open(t, database, nil)
	defer func() { _ = d.Close() }()
	if _, err := admin.Exec(t.Context(), "DELETE FROM lockstead.epoch"); err != nil {
		t.Fatal(err)
	}
	_, err := d.Acquire(t.Context(), request("order:1"))
	wantFault(t, err, driver.ErrUnavailable, pglock.ReasonNoEpoch)
	if err := pglock.Install(t.Context(), parse(t, database), ""); err != nil {
		t.Fatal(err)
	}
	mustAcquire(t, d, request("order:1"))
}

func TestTheDatabaseBoundsTheTTL(t *testing.T) {
	database := install(t, server)
	admin := connect(t, database)
	if _, err := admin.Exec(t.Context(), "UPDATE lockstead.epoch SET max_ttl = '1 minute'"); err != nil {
		t.Fatal(err)
	}
	d := open(t, database, nil)
	defer func() { _ = d.Close() }()
	req := request("order:1")
	_, err := d.Acquire(t.Context(), req)
	wantFault(t, err, driver.ErrUnavailable, pglock.ReasonTTLTooLong)
	req.TTL = time.Minute
	mustAcquire(t, d, req)
	_, err = d.Renew(t.Context(), driver.RenewRequest{Key: req.Key, ID: req.ID, TTL: longTTL})
	wantFault(t, err, driver.ErrUnavailable, pglock.ReasonTTLTooLong)
	if holding, err := d.Inspect(t.Context(), req.Key); err != nil || holding.ID != req.ID {
		t.Errorf("a refused renewal ended the lock: %+v, %v", holding, err)
	}
}
