// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// installLock keeps Installs of several replicas apart, which CREATE … IF NOT EXISTS does not. It is KeyHash of no prefix and no name.
const installLock = -7003866185702075846

// Install makes the tables that New needs, in a schema; "" is the default, "lockstead". It changes nothing that is there, and may run on any number of replicas at once.
// The role must be allowed to create the schema, or to create tables in it.
func Install(ctx context.Context, config *pgx.ConnConfig, schema string) (err error) {
	if config == nil {
		return refuse("config", "is nil: give what pgx.ParseConfig returns")
	}
	ddl, err := SchemaSQL(schema)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return explainConnect("install", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultAttemptTimeout)
		defer cancel()
		_ = conn.Close(closing)
	}()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", int64(installLock)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, ddl)
		return err
	})
	if err != nil {
		return fmt.Errorf("pglock: install: %w", err)
	}
	return nil
}

// columns are what the statements need.
func columns() map[string]map[string]string {
	return map[string]map[string]string{
		"locks": {
			"prefix": "bytea", "name": "bytea", "hash": "bigint", "id": "text", "owner": "text", "epoch": "bigint", "token": "bigint",
			"since": "timestamp with time zone", "expires_at": "timestamp with time zone",
		},
		"epoch": {"epoch": "bigint", "server": "text", "not_before": "timestamp with time zone", "max_ttl": "interval"},
	}
}

// checkTables compares the tables with what the statements need.
func (d *Driver) checkTables(ctx context.Context, conn *pgx.Conn) error {
	found := map[string]map[string]string{}
	persistence := map[string]string{}
	var unique, sequence bool
	rows, err := conn.Query(ctx, `
SELECT c.relname, c.relpersistence::text, a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = $1 AND c.relname IN ('locks', 'epoch') AND c.relkind = 'r'`, d.options.Schema)
	if err != nil {
		return err
	}
	var table, kept, column, kind string
	_, err = pgx.ForEachRow(rows, []any{&table, &kept, &column, &kind}, func() error {
		if found[table] == nil {
			found[table] = map[string]string{}
		}
		found[table][column], persistence[table] = kind, kept
		return nil
	})
	if err != nil {
		return err
	}
	err = conn.QueryRow(ctx, `
SELECT EXISTS (
  SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = 'locks' AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 2
  AND (SELECT array_agg(a.attname ORDER BY a.attname)::text[] FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey)) = '{name,prefix}'
), EXISTS (
  SELECT FROM pg_sequence q JOIN pg_class c ON c.oid = q.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = 'fence' AND c.relpersistence = 'p' AND q.seqincrement > 0 AND NOT q.seqcycle AND q.seqcache = 1 AND q.seqmax = 9223372036854775807
)`,
		d.options.Schema).Scan(&unique, &sequence)
	if err != nil {
		return err
	}
	problems := tableProblems(found, persistence)
	if len(found) == len(columns()) && !unique {
		problems = append(problems, "table locks has no primary key (prefix, name)")
	}
	if !sequence {
		problems = append(problems, "there is no sequence fence of type bigint that only grows, is logged, and has no cache")
	}
	if len(problems) > 0 {
		return &SchemaError{Schema: d.options.Schema, Problems: problems}
	}
	return nil
}

func tableProblems(found map[string]map[string]string, persistence map[string]string) (problems []string) {
	need := columns()
	for _, table := range slices.Sorted(maps.Keys(need)) {
		if found[table] == nil {
			problems = append(problems, "there is no table "+table)
			continue
		}
		if persistence[table] != "p" {
			problems = append(problems, "table "+table+" is UNLOGGED or temporary, and would forget locks in a crash: ALTER TABLE … SET LOGGED")
		}
		for _, column := range slices.Sorted(maps.Keys(need[table])) {
			switch want, have := need[table][column], found[table][column]; have {
			case want:
			case "":
				problems = append(problems, fmt.Sprintf("table %s has no column %s %s", table, column, want))
			default:
				problems = append(problems, fmt.Sprintf("column %s of table %s is %s, not %s", column, table, have, want))
			}
		}
	}
	return problems
}
