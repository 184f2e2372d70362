// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// clientCheck is how often the server looks whether the client of a session that waits for a lock is still there.
const clientCheck = 5 * time.Second

// errClosed: the driver was closed.
var errClosed = errors.New("the driver is closed")

// open makes a connection that can carry locks, or refuses. Waits says that it is to wait for a key.
func (d *Driver) open(ctx context.Context, waits bool) (*session, error) {
	if !d.begin() {
		return nil, errClosed
	}
	defer d.work.Done()
	ctx, cancel := context.WithTimeout(ctx, d.options.AttemptTimeout)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	config := d.config.Copy()
	if d.options.BeforeConnect != nil {
		if err := d.options.BeforeConnect(ctx, config); err != nil {
			return nil, fmt.Errorf("BeforeConnect: %w", err)
		}
	}
	// The session reads its notifications itself.
	config.OnNotification = nil
	// Every request is one round trip, the first one as well: a preparation whose answer is lost would look like a request that may have been applied.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	pid, err := d.prepare(ctx, conn)
	if err == nil && !waits {
		err = d.checkTables(ctx, conn)
	}
	if err == nil {
		err = d.identify(ctx, conn)
	}
	if err != nil {
		d.work.Go(func() { hangUp(conn, d.options.AttemptTimeout) })
		return nil, err
	}
	return d.serve(conn, pid, waits), nil
}

// prepare checks what is at the other end, and sets what the locks rely on whatever the server's and the role's settings are.
func (d *Driver) prepare(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	if pid, err = checkPooler(ctx, conn); err != nil {
		return 0, err
	}
	seconds := func(d time.Duration) string { return strconv.FormatInt(int64(max(d, time.Second)/time.Second), 10) }
	settings := map[string]string{
		"lock_timeout": strconv.FormatInt(max((d.options.AttemptTimeout/2).Milliseconds(), 1), 10),
		// Statements are bounded by the client; idle sessions are what holds the locks.
		"statement_timeout": "0", "transaction_timeout": "0", "idle_session_timeout": "0", "idle_in_transaction_session_timeout": strconv.FormatInt(d.options.AttemptTimeout.Milliseconds(), 10),
		// An acknowledged grant or renewal must survive a crash.
		"synchronous_commit": "on", "default_transaction_isolation": "read committed", "default_transaction_read_only": "off",
		// A client that vanished gives its advisory locks and its places in queues back soon.
		"tcp_keepalives_idle": seconds(d.options.AttemptTimeout), "tcp_keepalives_interval": seconds(d.options.AttemptTimeout / 3), "tcp_keepalives_count": "3",
		"tcp_user_timeout": strconv.FormatInt((3 * d.options.AttemptTimeout).Milliseconds(), 10),
	}
	names, values := make([]string, 0, len(settings)), make([]string, 0, len(settings))
	for name, value := range settings {
		names, values = append(names, name), append(values, value)
	}
	var recovers bool
	var server, fsync string
	err = conn.QueryRow(ctx, `SELECT pg_is_in_recovery(), current_setting('fsync'), (
  SELECT count(set_config(s.name, s.value, false))::text FROM unnest($1::text[], $2::text[]) AS s(name, value) JOIN pg_settings USING (name))`,
		names, values).Scan(&recovers, &fsync, &server)
	switch {
	case err != nil:
		return 0, err
	case recovers:
		return 0, &StandbyError{}
	case fsync == "off" && d.unsafe.CompareAndSwap(false, true):
		d.options.Logger.WarnContext(ctx, "the setting fsync of the server is off: a crash of its machine loses locks that are held")
	}
	// Not every platform of the server can look after its clients.
	if _, err := conn.Exec(ctx, "SELECT set_config('client_connection_check_interval', $1, false)", strconv.FormatInt(clientCheck.Milliseconds(), 10)); err != nil && conn.IsClosed() {
		return 0, err
	}
	_, err = conn.Exec(ctx, "LISTEN "+channel)
	return pid, err
}

// checkPooler compares the process that the server announced with the one that answers. A pooler makes the announcement up, since it
// has to find the right server for a cancel request by it.
func checkPooler(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	// By the simple protocol, which every pooler passes on in one piece.
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return 0, err
	}
	if announced := conn.PgConn().PID(); announced != pid {
		return 0, &PoolerError{Announced: announced, Actual: pid}
	}
	return pid, nil
}

// identify raises the epoch when the server is not the one that the table knows: it may lack the last locks of the other one.
func (d *Driver) identify(ctx context.Context, conn *pgx.Conn) error {
	var server string
	err := conn.QueryRow(ctx, d.sql.identify).Scan(&server)
	var answered *pgconn.PgError
	switch {
	case errors.As(err, &answered) && !conn.IsClosed() && unsupported(answered.Code):
		d.options.Logger.WarnContext(ctx, "the server does not tell its timeline: after a failover that loses commits raise the epoch by hand", "error", err)
		return nil
	case err != nil:
		return err
	}
	var epoch int64
	var waits bool
	err = conn.QueryRow(ctx, d.sql.exchange, server).Scan(&epoch, &waits)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	case waits:
		d.options.Logger.WarnContext(ctx, "the server is another one than before; nothing is granted until the locks of the old one have run out", "epoch", epoch, "server", server)
	}
	return nil
}

// unsupported are the answers of servers that do not have a function, or not for this role.
func unsupported(code string) bool {
	const undefinedFunction, featureNotSupported, notInThisState = "42883", "0A000", "55000"
	return code == undefinedFunction || code == featureNotSupported || code == notInThisState || code == codePermission
}
