// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// The outcomes of a call. Match them with errors.Is; the typed errors carry the data.
var (
	// ErrHeld: somebody else holds the key. The error is a *HeldError. It is an answer, not a fault: do not retry in a loop,
	// give a wait instead.
	ErrHeld = driver.ErrHeld
	// ErrUnavailable: the store could not be asked, and certainly granted nothing. The error is a *StoreError with a remedy.
	ErrUnavailable = driver.ErrUnavailable
	// ErrUnknown: the request may have been applied, but the caller does not hold the lock. The library releases it by
	// its acquisition id in the background; until then the key may look held.
	ErrUnknown = driver.ErrUnknown
	// ErrForeign: the store has an object in the lock's place that this library did not make, and left alone.
	ErrForeign = driver.ErrForeign
	// ErrBackendChanged: the binding names another backend than the one that this process opened. Restart the process.
	ErrBackendChanged = driver.ErrBackendChanged
	// ErrLost: the lock ended before it was released. The error is a *LostError. It is the cause of Handle.Context.
	ErrLost = errors.New("lock was lost")
	// ErrReleased: the handle was released. It is the cause of Handle.Context after a release.
	ErrReleased = errors.New("lock was released")
	// ErrNotHeld: ForceRelease found nobody to take the lock from, or another holder than the one that was asked for. The error is a
	// *NotHeldError. Nothing was changed.
	ErrNotHeld = errors.New("lock is not held")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("lock client is closed")
	// ErrInvalid: an argument was refused before any I/O. The error is an *InvalidError.
	ErrInvalid = errors.New("invalid lock request")
)

// HeldError says who holds the key, as far as the store tells.
type HeldError = driver.HeldError

// StoreError is a fault of the store or of the way to it.
type StoreError = driver.StoreError

// InvalidError refuses an argument. Nothing was sent.
type InvalidError struct {
	// Argument is "key", "ttl", "wait", or an option's name.
	Argument string
	// Problem says what is wrong and what is accepted.
	Problem string
}

func (e *InvalidError) Error() string { return "lock: " + e.Argument + ": " + e.Problem }

// Is matches ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// LossReason says why a lock was lost.
type LossReason string

// Why a lock can be lost.
const (
	// LossDeadline: the TTL ran out locally before a renewal succeeded.
	LossDeadline LossReason = "deadline"
	// LossNotHolder: the store said that this acquisition is not the holder.
	LossNotHolder LossReason = "not-holder"
	// LossStoreChanged: the store reported without being asked that the record was changed or deleted by somebody.
	LossStoreChanged LossReason = "store-changed"
	// LossBackendChanged: the binding came to name another backend.
	LossBackendChanged LossReason = "backend-changed"
	// LossMaxHold: Do held the lock for its maximum.
	LossMaxHold LossReason = "max-hold"
)

// LostError says that a lock ended before it was released: from some moment on, the guarded section was not exclusive.
type LostError struct {
	// Key is the application's key.
	Key string
	// Reason is why.
	Reason LossReason
	// Err is what the store said; it may be nil.
	Err error
}

func (e *LostError) Error() string {
	msg := fmt.Sprintf("lock %q was lost (%s)", e.Key, e.Reason)
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

// Is matches ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap gives what the store said.
func (e *LostError) Unwrap() error { return e.Err }

// WaitTimeoutError is what Acquire returns when the wait ended without the lock. It matches ErrHeld.
type WaitTimeoutError struct {
	// Key is the application's key.
	Key string
	// Wait is how long the caller was ready to wait.
	Wait time.Duration
	// Held is the last answer of the store.
	Held *HeldError
}

func (e *WaitTimeoutError) Error() string {
	return fmt.Sprintf("no lock on %q within %s: %v", e.Key, e.Wait, e.Held)
}

// Unwrap gives the last answer of the store.
func (e *WaitTimeoutError) Unwrap() error { return e.Held }

// NotHeldError says that there was no such holder. It matches ErrNotHeld.
type NotHeldError struct {
	// Key is the application's key.
	Key string
	// ID is the acquisition that was to lose the lock, "" if it was whoever holds it.
	ID string
}

func (e *NotHeldError) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("nobody holds lock %q", e.Key)
	}
	return fmt.Sprintf("acquisition %s does not hold lock %q any more: look again at who does", e.ID, e.Key)
}

// Is matches ErrNotHeld.
func (e *NotHeldError) Is(target error) bool { return target == ErrNotHeld }
