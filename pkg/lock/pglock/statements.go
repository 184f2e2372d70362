// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	_ "embed"
	"strings"

	"github.com/lockstead/lockstead/pkg/internal/pgname"
)

//go:embed schema.sql
var schemaSQL string

// SchemaSQL is the migration that makes the tables in a schema; "" is the default, "lockstead". It may be run again. Run it as the owner of the schema and
// grant the role of the applications what the comment of the package lists; or call Install.
func SchemaSQL(schema string) (string, error) {
	if schema == "" {
		schema = defaultSchema
	}
	if err := checkSchema(schema); err != nil {
		return "", err
	}
	return strings.ReplaceAll(schemaSQL, `"`+defaultSchema+`"`, pgname.Quote(schema)), nil
}

// checkSchema refuses names that the server would change.
func checkSchema(name string) error {
	if err := pgname.Check(name); err != nil {
		return refuse("Schema", err.Error())
	}
	return nil
}

// statements are the SQL of the driver for one schema.
type statements struct {
	// guard keeps all grants and releases of one key apart, so that their order is that of the fencing tokens. It ends with the transaction.
	guard string
	// acquire, pass, renew and release answer with one row, but for an acquire or a pass without the row of the table epoch.
	acquire, pass, renew, release string
	inspect, list, force          string
	sweep                         string
	identify, exchange            string
}

// newStatements writes the SQL. Times are clock_timestamp(), the time at which a statement runs; now() would be that of the start of the transaction, before the wait
// for the guard.
func newStatements(schema string) statements {
	tables := strings.NewReplacer("{locks}", pgname.Quote(schema)+".locks", "{epoch}", pgname.Quote(schema)+".epoch", "{fence}", "'"+strings.ReplaceAll(pgname.Quote(schema), "'", "''")+".fence'::regclass")
	return statements{
		guard: `SELECT pg_advisory_xact_lock($1::int, $2::int)`,
		acquire: tables.Replace(`
WITH gate AS MATERIALIZED (
  SELECT epoch, clock_timestamp() AS now, not_before, $6::bigint * interval '1 microsecond' AS ttl, max_ttl FROM {epoch}
), granted AS (
  INSERT INTO {locks} AS l (prefix, name, hash, id, owner, epoch, token, since, expires_at)
  SELECT $1::bytea, $2::bytea, $3::bigint, $4::text, $5::text, epoch, nextval({fence}), now, now + ttl FROM gate WHERE not_before <= now AND ttl <= max_ttl
  ON CONFLICT (prefix, name) DO UPDATE
  SET hash = EXCLUDED.hash, id = EXCLUDED.id, owner = EXCLUDED.owner, epoch = EXCLUDED.epoch, token = EXCLUDED.token, since = EXCLUDED.since, expires_at = EXCLUDED.expires_at
  WHERE l.expires_at <= EXCLUDED.since
  RETURNING l.epoch, l.token
)
SELECT granted.token IS NOT NULL, coalesce(granted.epoch, 0), coalesce(granted.token, 0), gate.not_before <= gate.now, gate.ttl <= gate.max_ttl,
  coalesce(held.owner, ''), coalesce(extract(epoch FROM held.expires_at - gate.now) * 1000000, 0)::bigint,
  CASE WHEN granted.token IS NOT NULL AND $7::bool THEN pg_try_advisory_lock($3::bigint) ELSE false END
FROM gate LEFT JOIN granted ON true LEFT JOIN (SELECT owner, expires_at FROM {locks} WHERE prefix = $1 AND name = $2) AS held ON true`),
		pass: tables.Replace(`
WITH gate AS MATERIALIZED (
  SELECT epoch, clock_timestamp() AS now, not_before, $5::bigint * interval '1 microsecond' AS ttl, max_ttl FROM {epoch}
), granted AS (
  UPDATE {locks} AS l SET id = $3::text, owner = $4::text, epoch = gate.epoch, token = nextval({fence}), since = gate.now, expires_at = gate.now + gate.ttl
  FROM gate WHERE l.prefix = $1::bytea AND l.name = $2::bytea AND l.id = $6::text AND l.expires_at > gate.now AND gate.not_before <= gate.now AND gate.ttl <= gate.max_ttl
  RETURNING l.epoch, l.token
)
SELECT granted.token IS NOT NULL, coalesce(granted.epoch, 0), coalesce(granted.token, 0), gate.not_before <= gate.now, gate.ttl <= gate.max_ttl, '', 0::bigint, false
FROM gate LEFT JOIN granted ON true`),
		renew: tables.Replace(`
WITH renewed AS (
  UPDATE {locks} SET expires_at = clock_timestamp() + $4::bigint * interval '1 microsecond'
  WHERE prefix = $1::bytea AND name = $2::bytea AND id = $3::text AND expires_at > clock_timestamp() AND (SELECT max_ttl FROM {epoch}) >= $4::bigint * interval '1 microsecond'
  RETURNING 1
)
SELECT EXISTS (SELECT FROM renewed), (SELECT max_ttl FROM {epoch}) >= $4::bigint * interval '1 microsecond', CASE WHEN $6::bool AND EXISTS (SELECT FROM renewed) THEN pg_try_advisory_lock($5::bigint) ELSE false END`),
		// The session lock is given back before the commit; whoever gets it waits for the guard, and then sees the key free. Without the
		// session lock nobody is woken by it, so the waiters are told.
		release: tables.Replace(`
WITH gone AS (
  DELETE FROM {locks} WHERE prefix = $1::bytea AND name = $2::bytea AND id = $3::text RETURNING expires_at > clock_timestamp() AS held
)
SELECT coalesce((SELECT held FROM gone), false), CASE WHEN CASE WHEN $5::bool THEN pg_advisory_unlock($4::bigint) ELSE false END THEN true ELSE pg_notify('` + channel + `', 'freed ' || $4::bigint) IS NULL END`),
		inspect: tables.Replace(`
SELECT id, owner, epoch, token, since, (extract(epoch FROM expires_at - clock_timestamp()) * 1000000)::bigint
FROM {locks} WHERE prefix = $1::bytea AND name = $2::bytea AND expires_at > clock_timestamp()`),
		list: tables.Replace(`
SELECT name, id, owner, epoch, token, since, (extract(epoch FROM expires_at - clock_timestamp()) * 1000000)::bigint
FROM {locks} WHERE prefix = $1::bytea AND name > $2::bytea AND expires_at > clock_timestamp() ORDER BY name LIMIT $3`),
		force: tables.Replace(`
WITH gone AS (
  DELETE FROM {locks} WHERE prefix = $1::bytea AND name = $2::bytea AND ($3::text = '' OR id = $3::text) AND expires_at > clock_timestamp() RETURNING *
)
SELECT gone.id, gone.owner, gone.epoch, gone.token, gone.since, (extract(epoch FROM gone.expires_at - clock_timestamp()) * 1000000)::bigint,
  greatest(gone.epoch, coalesce((SELECT epoch FROM {epoch}), 0)), nextval({fence}), pg_notify('` + channel + `', 'forced ' || gone.hash || ' ' || gone.id) IS NULL
FROM gone`),
		sweep: tables.Replace(`
DELETE FROM {locks} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {locks} WHERE expires_at < clock_timestamp() - interval '1 hour' LIMIT 1000 FOR UPDATE SKIP LOCKED))`),
		// A backup that was restored and a promoted replica have another system identifier or timeline than the table says.
		identify: tables.Replace(`
SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`),
		exchange: tables.Replace(`
UPDATE {epoch} SET server = $1::text,
  epoch = CASE WHEN server = '' THEN epoch ELSE greatest(epoch, floor(extract(epoch FROM clock_timestamp()))::bigint - 1) + 1 END,
  not_before = CASE WHEN server = '' THEN not_before ELSE clock_timestamp() + max_ttl END
WHERE server <> $1::text RETURNING epoch, not_before > clock_timestamp()`),
	}
}

// channel is that of LISTEN and NOTIFY. A payload is "freed <hash>", or "forced <hash> <id>".
const channel = "lockstead_locks"
