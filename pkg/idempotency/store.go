// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Key is what a store keeps a record under: a hash of subject, method, route and client key. The store never sees what it was made of.
type Key [32]byte

// String is 64 hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Fingerprint is a hash of what a key is bound to: path, query and body.
type Fingerprint [32]byte

// State is how far the request of a record has come.
type State uint8

// The states of a record.
const (
	// Absent: there is no record, or its retention is over.
	Absent State = iota
	// InFlight: a request with the key is being executed, or was when its replica died.
	InFlight
	// Done: the request was executed, and its answer is kept.
	Done
	// Tombstone: the request was executed and must not be executed again, but its answer was not kept whole.
	Tombstone
)

// String is the state in one word.
func (s State) String() string {
	switch s {
	case Absent:
		return "absent"
	case InFlight:
		return "in-flight"
	case Done:
		return "done"
	case Tombstone:
		return "tombstone"
	default:
		return fmt.Sprintf("state(%d)", uint8(s))
	}
}

// Ownership names one execution. Every write after Begin is conditional on both parts.
type Ownership struct {
	// Owner is an id that is new for every execution.
	Owner string
	// Token is the fencing token of the lock that the execution runs under; zero without a lock that all replicas see.
	Token lock.Token
}

// Claim is what Begin writes.
type Claim struct {
	Ownership
	// Fingerprint is what the key is bound to from now on.
	Fingerprint Fingerprint
	// Lease is after what time without Extend the execution counts as dead.
	Lease time.Duration
	// Retention is how long the record is kept at most, so that what a dead replica left behind goes away. It is not shorter than Lease.
	Retention time.Duration
}

// Result is what Complete writes.
type Result struct {
	// State is Done or Tombstone.
	State State
	// Response is the encoded answer. Stores keep it as it is.
	Response []byte
	// Retention is how long the record is kept from now on.
	Retention time.Duration
}

// Record is what a store knows of a key. The zero Record is that of a key without one.
type Record struct {
	// State is how far the request has come.
	State State
	// Ownership is that of the execution which has the record, or had it when it completed.
	Ownership
	// Fingerprint is what the key is bound to.
	Fingerprint Fingerprint
	// Expired says that the lease of an InFlight record has run out, by the clock of the store. What has no end that the store can tell is not expired.
	Expired bool
	// Left is what is left of the lease of an InFlight record, 0 when it has run out.
	Left time.Duration
	// Response is what Complete was given.
	Response []byte
}

// Owned reports whether the record is the running execution of o.
func (r Record) Owned(o Ownership) bool { return r.State == InFlight && r.Ownership == o }

// Store keeps records. Every method is one atomic step, and safe for concurrent use by many processes. Each may be repeated with the same arguments after an
// error that leaves open whether it was applied: what was applied already is a success. Time is that of the store.
//
// An error that matches none of this package's is a fault of the store. Package idempotencytest is the suite that every store passes.
type Store interface {
	// Get returns the record of key. It changes nothing.
	Get(ctx context.Context, key Key) (Record, error)
	// Begin writes an InFlight record if there is none, or one whose lease has run out and whose token is not greater than that of the claim; the zero
	// token is no token and not compared. It returns the record as it then is: the claim was granted if the record is Owned by it.
	Begin(ctx context.Context, key Key, claim Claim) (Record, error)
	// Complete turns the InFlight record of owner into result. It returns a *ClaimLostError if the record is not that of owner, and a *TooLargeError, with
	// nothing changed, if the store does not keep so large a response. A store with a bound for all records may return a *StoreFullError, and takes the same record
	// without the body of its response all the same.
	Complete(ctx context.Context, key Key, owner Ownership, result Result) error
	// Abort removes the InFlight record of owner, so that the key is free. A record that is gone is a success; another's is a *ClaimLostError.
	Abort(ctx context.Context, key Key, owner Ownership) error
	// Extend makes the lease of the InFlight record of owner end after lease from now, also if it had run out. It returns a *ClaimLostError if the
	// record is not that of owner.
	Extend(ctx context.Context, key Key, owner Ownership, lease time.Duration) error
}

// What a store answers beside faults. Match them with errors.Is; the typed errors carry the data.
var (
	// ErrClaimLost: the record is not, or no longer, that of the execution. The error is a *ClaimLostError.
	ErrClaimLost = errors.New("idempotency record belongs to another execution")
	// ErrTooLarge: the store does not keep so large a response. The error is a *TooLargeError.
	ErrTooLarge = errors.New("response is too large for the store")
	// ErrStoreFull: the store has no room for another record, or for so large a response, at present. The error is a *StoreFullError.
	ErrStoreFull = errors.New("store of idempotency records is full")
)

// ClaimLostError says which step was refused. Nothing was written.
type ClaimLostError struct {
	// Op is "complete", "abort" or "extend".
	Op string
	// Found is the state that the record has instead.
	Found State
}

func (e *ClaimLostError) Error() string {
	return fmt.Sprintf("idempotency: %s: the record belongs to another execution or is gone (it is %s): its lease ran out, or somebody removed it", e.Op, e.Found)
}

// Is matches ErrClaimLost.
func (e *ClaimLostError) Is(target error) bool { return target == ErrClaimLost }

// TooLargeError says how much is too much.
type TooLargeError struct {
	// Size and Max are in bytes.
	Size, Max int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("idempotency: a response of %d bytes is more than the %d that the store keeps", e.Size, e.Max)
}

// Is matches ErrTooLarge.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// StoreFullError says how full a store is. Nothing was written.
type StoreFullError struct {
	// Used and Share are in bytes: what the records take, and what they may take at present. Both are 0 if the store does not tell.
	Used, Share int64
	// Remedy says what to do.
	Remedy string
}

func (e *StoreFullError) Error() string {
	if e.Used == 0 && e.Share == 0 {
		return "idempotency: the store has no room for another record: " + e.Remedy
	}
	return fmt.Sprintf("idempotency: the records take %d of the %d bytes that they may: %s", e.Used, e.Share, e.Remedy)
}

// Is matches ErrStoreFull.
func (e *StoreFullError) Is(target error) bool { return target == ErrStoreFull }
