// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pglock keeps locks in a PostgreSQL database (14 or later), for migrations, long reconciliations, and applications that have no other store.
//
//	config, err := pgx.ParseConfig(url)
//	…
//	err = pglock.Install(ctx, config, "") // once, or by a migration with what SchemaSQL returns
//	d, err := pglock.New(ctx, config, nil)
//	…
//	client, err := lock.New(d, "billing:", nil)
//
// Migrate does all of it around one function, which is what the start of an application needs.
//
// # How it works
//
// A row says who holds a key, with which token, and until when. It decides. Beside it the holder's session has an advisory lock, whose number is KeyHash of the
// key: others wait for it in the database, which wakes the next one in its queue the moment that the holder gives it up. So a wait costs no round trips,
// and the order of a wait is that of the database.
//
// Who gets the advisory lock looks at the row. If its holder did not give it up, since its session or its process broke, the row stays in force until its time is
// over: that is the delay that a session lock alone does not have. So a connection that breaks loses no lock. The driver connects again, takes the advisory lock back, and
// tells the holder at once if its row has gone.
//
// A session that an administrator ends, by pg_terminate_backend or by stopping the server, is a loss that the holder is told of at once: its context ends with a
// *SessionEndedError. The key is free when the holder has returned and released it, or when its time is over.
//
// # What it assumes
//
//   - The database keeps what it acknowledged. Sessions set synchronous_commit; fsync and the disk are the administrator's. With fsync off a Warn is logged.
//   - A replica that is promoted, or a backup that is restored, may lack the last locks. Both have another timeline or system identifier than the table epoch says: the first
//     session raises the epoch, and nothing is granted until max_ttl of that table, 10 minutes, has passed; holders whose rows came through go on meanwhile. After a planned
//     switchover that lost nothing, set not_before of the table to '-infinity' to end the wait. A snapshot of the same server's storage and a dump loaded into the same server look
//     like no change: stop all replicas and raise the epoch by hand; also where the server does not tell its timeline.
//   - An old primary that was replaced takes no more writes.
//   - The clock of the server does not jump forward. It decides when a TTL is over: after a jump two holders are possible. Tokens still grow.
//   - Clocks run at the same rate to within 1 %.
//   - Only this package writes to its tables.
//
// Fencing tokens are the epoch and the next value of one sequence. All grants and releases of a key are kept apart by a second advisory lock that lasts for
// one transaction, so the order of the tokens is that of the grants, also over deleted rows and crashes.
//
// # Connections
//
// The driver opens its own: one for all that it holds, and one more for each key that this process waits for, up to Options.MaxSessions. The goroutines of a process that
// wait for one key share one. A lock that was waited for stays on the connection that waited, until it is released.
//
// New refuses a connection through a pooler, whatever its mode: it would give the session, and the locks with it, to somebody else. It is found by the process number that the
// server announces, which a pooler makes up. New also refuses a standby, and tables that are not as SchemaSQL makes them.
//
// # Rights
//
// The role needs USAGE on the schema; SELECT, INSERT, UPDATE and DELETE on locks; SELECT and UPDATE on epoch; USAGE on the sequence fence. Everybody who has them can take
// every lock: a schema is one domain of trust.
//
// To see who holds what:
//
//	SELECT convert_from(name, 'UTF8'), owner, since, expires_at FROM lockstead.locks WHERE expires_at > clock_timestamp();
package pglock
