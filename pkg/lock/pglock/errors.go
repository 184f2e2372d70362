// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// The reasons of a *driver.StoreError of this driver.
const (
	// ReasonContext: the caller's context ended.
	ReasonContext = "context"
	// ReasonClosed: the driver was closed.
	ReasonClosed = "closed"
	// ReasonConnect: no session could be opened.
	ReasonConnect = "connect"
	// ReasonTimeout: no answer within Options.AttemptTimeout.
	ReasonTimeout = "timeout"
	// ReasonConnection: the session ended before the answer came.
	ReasonConnection = "connection"
	// ReasonServerError: the server refused with an error that the driver does not know.
	ReasonServerError = "server-error"
	// ReasonBusy: another change of the same key took too long.
	ReasonBusy = "busy"
	// ReasonNoEpoch: the row of the table epoch is missing.
	ReasonNoEpoch = "no-epoch"
	// ReasonNotArmed: the server was exchanged, and locks of the old one may still be held.
	ReasonNotArmed = "not-armed"
	// ReasonTTLTooLong: the TTL is above what the database allows.
	ReasonTTLTooLong = "ttl-too-long"
	// ReasonPermission: the role lacks a right.
	ReasonPermission = "permission"
	// ReasonAuthentication: user or password are wrong.
	ReasonAuthentication = "authentication"
	// ReasonSchema: a table is missing, or is not as it should be.
	ReasonSchema = "schema"
	// ReasonPooler: a pooler is between this process and the server.
	ReasonPooler = "pooler"
	// ReasonReadOnly: the server is a standby.
	ReasonReadOnly = "read-only"
	// ReasonTooManyClients: the server takes no more connections.
	ReasonTooManyClients = "too-many-clients"
	// ReasonMaxSessions: the driver has Options.MaxSessions connections.
	ReasonMaxSessions = "max-sessions"
)

// PoolerError says that the connection is not to the server itself. A pooler gives a session to others between two transactions, and with it the
// locks of the session.
type PoolerError struct {
	// Announced is the process number that was given when the connection was made; Actual is the one of the process that answers.
	Announced, Actual uint32
}

func (e *PoolerError) Error() string {
	return fmt.Sprintf("a pooler is between this process and PostgreSQL: the connection announced process %d, and process %d answers", e.Announced, e.Actual)
}

// StandbyError says that the server is a standby, which grants no locks.
type StandbyError struct{}

func (*StandbyError) Error() string { return "the server is in recovery: a standby grants no locks" }

// SchemaError says what the tables lack. Nothing was changed.
type SchemaError struct {
	// Schema is the schema that was looked at.
	Schema string
	// Problems are what is missing or different, one each.
	Problems []string
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("schema %q is not what pglock needs: %s", e.Schema, strings.Join(e.Problems, "; "))
}

// SessionEndedError is why a lock was lost at once: an administrator ended the session, by pg_terminate_backend or by stopping the server. Its row still stands, so
// nobody else is granted the lock before its TTL has run out, or the holder has released it.
type SessionEndedError struct {
	// Err is what the server said.
	Err error
}

func (e *SessionEndedError) Error() string {
	return "the database session that held the lock was ended by an administrator: " + e.Err.Error()
}

// Unwrap returns what the server said.
func (e *SessionEndedError) Unwrap() error { return e.Err }

// forcedError is why a lock was lost at once: ForceRelease took it away.
type forcedError struct{}

func (forcedError) Error() string { return "the lock was taken away by force" }

const (
	remedyConnect = "check that PostgreSQL runs and that this process may reach it"
	remedyPooler  = "connect to PostgreSQL itself, not to PgBouncer or another pooler, in whatever mode"
	remedyStandby = "connect to the primary; with several hosts in the connection string add target_session_attrs=read-write"
	remedySchema  = "run the SQL that pglock.SchemaSQL returns, or pglock.Install, as the owner of the schema"
	remedyRights  = "grant the role USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on locks, SELECT and UPDATE on epoch, and USAGE on the sequence fence"
	remedyEpoch   = "insert the row of the table epoch by the SQL that pglock.SchemaSQL returns; if rows may have been lost, raise its epoch first"
	remedyArming  = "the server is another one than before (a promoted replica, a restored backup), and locks of the old one may still be held: wait until not_before of the table epoch; after a planned switchover that lost nothing you may set it to the present"
	remedyTTL     = "ask for a shorter TTL, or raise max_ttl in the table epoch"
	remedyClients = "raise the server's max_connections, or lower Options.MaxSessions"
)

// SQLSTATE codes: https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	codeLockNotAvailable = "55P03"
	codeQueryCanceled    = "57014"
	codeAdminShutdown    = "57P01"
	codeTooManyClients   = "53300"
	codeInvalidPassword  = "28P01"
	codeInvalidRole      = "28000"
	codePermission       = "42501"
	codeNoTable          = "42P01"
	codeNoColumn         = "42703"
	codeNoSchema         = "3F000"
	codeReadOnly         = "25006"
)

// refusal is what an error of the server means.
type refusal struct {
	reason, remedy string
	lasting        bool
}

// refusals are by SQLSTATE.
func refusals() map[string]refusal {
	return map[string]refusal{
		codeLockNotAvailable: {ReasonBusy, "another change of this key was under way for too long: see pg_stat_activity", false},
		codeQueryCanceled:    {ReasonTimeout, "", false},
		codeTooManyClients:   {ReasonTooManyClients, remedyClients, false},
		codeInvalidPassword:  {ReasonAuthentication, "check user and password of the connection", true},
		codeInvalidRole:      {ReasonAuthentication, "check the user, and pg_hba.conf of the server", true},
		codePermission:       {ReasonPermission, remedyRights, true},
		codeNoTable:          {ReasonSchema, remedySchema, true},
		codeNoColumn:         {ReasonSchema, remedySchema, true},
		codeNoSchema:         {ReasonSchema, remedySchema, true},
		codeReadOnly:         {ReasonReadOnly, remedyStandby, false},
	}
}

// explain turns the failure of a request into an outcome. Sent says whether the server may have got any of it.
func explain(op string, sent bool, err error) error {
	fault := &driver.StoreError{Outcome: driver.ErrUnknown, Op: op, Reason: ReasonConnection, Err: hideContext(err)}
	var answered *pgconn.PgError
	var timeout net.Error
	switch {
	case errors.As(err, &answered):
		fault.Reason = ReasonServerError
		// An error undoes the transaction. The end of a session may have come after its commit.
		if answered.SeverityUnlocalized == "ERROR" {
			sent = false
		}
		if r, known := refusals()[answered.Code]; known {
			fault.Reason, fault.Remedy, fault.Lasting = r.reason, r.remedy, r.lasting
		}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		fault.Reason = ReasonTimeout
	}
	if !sent || pgconn.SafeToRetry(err) {
		fault.Outcome = driver.ErrUnavailable
	}
	return fault
}

// explainConnect turns the failure to open a session into an outcome.
func explainConnect(op string, err error) error {
	fault := &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: ReasonConnect, Remedy: remedyConnect, Err: hideContext(err)}
	var answered *pgconn.PgError
	switch {
	case errors.Is(err, errClosed):
		return closed(op)
	case errors.As(err, new(*PoolerError)):
		fault.Reason, fault.Remedy, fault.Lasting = ReasonPooler, remedyPooler, true
	case errors.As(err, new(*StandbyError)):
		fault.Reason, fault.Remedy = ReasonReadOnly, remedyStandby
	case errors.As(err, new(*SchemaError)):
		fault.Reason, fault.Remedy, fault.Lasting = ReasonSchema, remedySchema, true
	case errors.As(err, &answered):
		if r, known := refusals()[answered.Code]; known {
			fault.Reason, fault.Remedy, fault.Lasting = r.reason, r.remedy, r.lasting
		}
	}
	return fault
}

// ended is the outcome of a request whose caller has gone.
func ended(ctx context.Context, op string, outcome error) error {
	return &driver.StoreError{Outcome: outcome, Op: op, Reason: ReasonContext, Err: driver.ContextError(ctx)}
}

func closed(op string) error {
	return &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: ReasonClosed, Err: errClosed, Lasting: true}
}

// hideContext keeps the time-out of an attempt from looking like the end of the caller's context.
func hideContext(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return textError(err.Error())
	}
	return err
}

type textError string

func (e textError) Error() string { return string(e) }
