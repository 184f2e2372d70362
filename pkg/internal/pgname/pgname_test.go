// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pgname_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/internal/pgname"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

var server *pgtest.Server

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Shared(m, &server)) }

// names are taken, and mean themselves.
var names = map[string]string{
	"plain":               "orders",
	"upper case":          "Orders",
	"a keyword":           "select",
	"begins with a digit": "2fa",
	"blanks":              " my orders ",
	"a dot":               "public.orders",
	"a semicolon":         `orders; DROP TABLE victim; --`,
	"a comment":           "orders /* all */",
	"single quotes":       `orders' OR 'a'='a`,
	"a backslash":         `orders\`,
	"a dollar":            "$1",
	"a percent sign":      "%s%[1]d",
	"a line break":        "orders\r\nDROP TABLE victim",
	"a tab":               "orders\t",
	"letters of Unicode":  "Aufträge_заказы_注文",
	"a joined character":  "👩‍👩‍👧",
	"right to left":       "\u202eredro",
	"full-width quotes":   "orders＂; DROP TABLE victim",
	"63 bytes":            strings.Repeat("x", 63),
	"63 bytes in 21":      strings.Repeat("注", 21),
}

// Whatever a name has in it, it makes a table with this name and a column with this name, and nothing else happens.
func TestNamesMeanThemselves(t *testing.T) {
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := func(statement string) {
		t.Helper()
		// The simple protocol would run several statements.
		if _, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%q: %v", statement, err)
		}
	}
	exec(`CREATE TABLE victim (n int)`)
	for what, name := range names {
		if err := pgname.Check(name); err != nil {
			t.Errorf("%s is refused: %v", what, err)
			continue
		}
		exec("CREATE SCHEMA " + pgname.Quote(name))
		for schema, actual := range map[string]string{"": "public", name: name} {
			exec("CREATE TABLE " + pgname.QuoteIn(schema, name) + " (" + pgname.Quote(name) + " int)")
			var found int
			err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace`+
				` WHERE a.attnum = 1 AND a.attname = $1 AND c.relname = $1 AND n.nspname = $2`, name, actual).Scan(&found)
			if err != nil || found != 1 {
				t.Errorf("%s: %d columns of a table are called %q, %v", what, found, name, err)
			}
		}
	}
	exec(`SELECT n FROM victim`)
}

func TestWhatTheServerWouldChangeIsRefused(t *testing.T) {
	for name, problem := range map[string]string{
		"":                        "is empty",
		`orders"`:                 "contains a quote",
		`"orders"`:                "contains a quote",
		`o"".""x`:                 "contains a quote",
		"orders\x00":              "contains NUL",
		"orders\xff":              "is not UTF-8",
		strings.Repeat("x", 64):   "has 64 bytes",
		strings.Repeat("注", 22):   "has 66 bytes",
		strings.Repeat("x", 6400): "has 6400 bytes",
	} {
		if err := pgname.Check(name); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: error is %v, want one that says: %s", name, err, problem)
		}
	}
}

// Quotes that got past Check could still not end a name.
func TestAQuoteDoesNotEndAName(t *testing.T) {
	if got, want := pgname.QuoteIn(`a".b`, `c"; --`), `"a"".b"."c""; --"`; got != want {
		t.Errorf("quoted %s, want %s", got, want)
	}
}

func TestListsAndEnds(t *testing.T) {
	if got, want := pgname.QuoteList([]string{"a", "b c"}), `"a", "b c"`; got != want {
		t.Errorf("list %s, want %s", got, want)
	}
	for name, want := range map[string]string{
		"jobs":                  "jobs_claim_idx",
		strings.Repeat("x", 63): strings.Repeat("x", 53) + "_claim_idx",
		strings.Repeat("注", 21): strings.Repeat("注", 17) + "_claim_idx",
	} {
		if got := pgname.WithEnd(name, "_claim_idx"); got != want || pgname.Check(got) != nil {
			t.Errorf("%q with its end is %q, want %q", name, got, want)
		}
	}
}
