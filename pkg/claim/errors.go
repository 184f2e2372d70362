// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"fmt"
	"strings"
)

// Match these with errors.Is; the typed errors carry the data.
var (
	// ErrLost: the claim is over, and somebody else may work on the row. The error is a *LostError.
	ErrLost = errors.New("claim was lost")
	// ErrEnded: the claim was released, or completed and its time ran out. It is the cause of Claim.Context.
	ErrEnded = errors.New("claim has ended")
	// ErrInvalid: an argument was refused before any I/O. The error is an *InvalidError.
	ErrInvalid = errors.New("invalid claim request")
	// ErrSchema: the table does not have what claims need. The error is a *SchemaError with the statements to run.
	ErrSchema = errors.New("table is not ready for claims")
	// ErrDraining: the worker is shutting down and its drain time is over. It is the cause of a handler's context.
	ErrDraining = errors.New("worker is shutting down")
	// ErrMaxRun: a handler ran for longer than WorkerOptions.MaxRun. It is the cause of the handler's context.
	ErrMaxRun = errors.New("handler ran for longer than WorkerOptions.MaxRun")
)

// InvalidError refuses an argument. Nothing was sent.
type InvalidError struct {
	// Argument is the name of the argument or of the option.
	Argument string
	// Problem says what is wrong and what is accepted.
	Problem string
}

func (e *InvalidError) Error() string { return "claim: " + e.Argument + ": " + e.Problem }

// Is matches ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// LossReason says why a claim was lost.
type LossReason string

// Why a claim can be lost.
const (
	// LossDeadline: the TTL ran out locally before an extension succeeded.
	LossDeadline LossReason = "deadline"
	// LossNotHolder: the row has another lock token, none, an older locked_until, or is gone.
	LossNotHolder LossReason = "not-holder"
)

// LostError says that a claim ended before its work was recorded: from some moment on, somebody else could have claimed the row. Stop the work, roll back
// the transaction, and do not try again: the row comes back by itself when it is not done.
type LostError struct {
	// Table and Key name the row.
	Table string
	Key   []any
	// Fence is the fencing token of the claim that was lost.
	Fence int64
	// Reason is why.
	Reason LossReason
}

func (e *LostError) Error() string {
	return fmt.Sprintf("claim: row %v of %s was lost (%s) by its claim with fence %d; roll back what was done under it", e.Key, e.Table, e.Reason, e.Fence)
}

// Is matches ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// StoreError is a fault of the database or of the way to it. Whether the statement was applied is known only if Err is an answer of the server;
// then it was not. Rows that were claimed by a statement whose answer was lost come back when their claim expires.
type StoreError struct {
	// Op is "claim", "extend", "complete", "delete", "reschedule", "release", "exhausted", "check" or "notify".
	Op string
	// Table is the table.
	Table string
	// Err is what the driver said.
	Err error
}

func (e *StoreError) Error() string {
	remedy := ""
	switch sqlState(e.Err) {
	case "42P01", "42703", "42804", "23502":
		remedy = " (Table.Check says what the table lacks)"
	case "42501":
		remedy = " (the role needs SELECT and UPDATE on the table, and DELETE for Delete)"
	case "55P03":
		remedy = " (another transaction has locked the row: complete the claim first in a transaction that changes the row, and keep it short)"
	}
	return fmt.Sprintf("claim: %s on %s: %v%s", e.Op, e.Table, e.Err, remedy)
}

// Unwrap gives what the driver said.
func (e *StoreError) Unwrap() error { return e.Err }

// sqlState is the code of a server's answer; the errors of pgx and of lib/pq tell it in the same way.
func sqlState(err error) string {
	if answer, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return answer.SQLState()
	}
	return ""
}

// RowError says that a row was claimed whose values do not fit the row type. The row stays claimed until its claim expires, with its attempt
// counted, so that it ends as exhausted and does not stop the others.
type RowError struct {
	// Table is the table.
	Table string
	// Err is what the driver said when it scanned the row.
	Err error
}

func (e *RowError) Error() string {
	return fmt.Sprintf("claim: a row of %s does not fit the row type: %v", e.Table, e.Err)
}

// Unwrap gives what the driver said.
func (e *RowError) Unwrap() error { return e.Err }

// SchemaError says what a table lacks. Its message has the statements that put it right.
type SchemaError struct {
	// Table is the table.
	Table string
	// Problems are what is wrong, at least one.
	Problems []SchemaProblem
}

// SchemaProblem is one thing that is wrong with a table.
type SchemaProblem struct {
	// Column is the column, empty for the table as a whole.
	Column string
	// Problem says what is wrong.
	Problem string
	// Remedy is the SQL that puts it right; empty where that depends on the data.
	Remedy string
}

func (e *SchemaError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "claim: table %s is not ready for claims:", e.Table)
	for _, p := range e.Problems {
		b.WriteString("\n\t")
		if p.Column != "" {
			fmt.Fprintf(&b, "column %q ", p.Column)
		}
		b.WriteString(p.Problem)
		if p.Remedy != "" {
			b.WriteString("; run: " + p.Remedy)
		}
	}
	return b.String()
}

// Is matches ErrSchema.
func (e *SchemaError) Is(target error) bool { return target == ErrSchema }

// PanicError is a panic of a handler, as it is reported. The row was given back like after an error.
type PanicError struct {
	// Value is what the handler panicked with; nil if it ended its goroutine.
	Value any
	// Stack is the stack of the panic.
	Stack []byte
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "claim: the handler ended its goroutine with runtime.Goexit"
	}
	return fmt.Sprintf("claim: the handler panicked: %v", e.Value)
}

// Unwrap gives the error that the handler panicked with, if it was one.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
