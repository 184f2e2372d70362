// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The outcomes that are not success. Match them with errors.Is.
var (
	// ErrHeld: somebody else holds the key. The error is a *HeldError.
	ErrHeld = errors.New("lock is held")
	// ErrNotHolder: the store holds no such acquisition. On renew it means definitely lost.
	ErrNotHolder = errors.New("not the holder of the lock")
	// ErrUnavailable: the request was certainly not applied. The error is a *StoreError that says why and what to do.
	ErrUnavailable = errors.New("lock store is unavailable")
	// ErrUnknown: the request may have been applied. The caller does not hold the lock.
	ErrUnknown = errors.New("outcome of the lock request is unknown")
	// ErrForeign: the store has an object in the place of the lock that this library did not make. It is left alone.
	ErrForeign = errors.New("object in the place of the lock is not ours")
	// ErrBackendChanged: the binding names another backend, instance or prefix than the one that this process opened.
	// Restart the process.
	ErrBackendChanged = errors.New("lock backend changed since the process started")
)

// HeldError is the answer for a key that somebody else holds. It matches ErrHeld.
type HeldError struct {
	// Key is the application's key.
	Key string
	// Owner is what the holder told about itself, "" if the store did not say.
	Owner string
	// Remaining is the time after which the key may be free without a release; zero if the store does not know.
	Remaining time.Duration
}

func (e *HeldError) Error() string {
	msg := fmt.Sprintf("lock %q is held", e.Key)
	if e.Owner != "" {
		msg += " by " + e.Owner
	}
	if e.Remaining > 0 {
		msg += fmt.Sprintf(" for up to %s more", e.Remaining)
	}
	return msg
}

// Is matches ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// StoreError is a fault of the store or of the way to it.
type StoreError struct {
	// Outcome is ErrUnavailable or ErrUnknown.
	Outcome error
	// Op is what was asked: "acquire", "pass", "renew", "release", "inspect", "list", "force-release", "subscribe".
	Op string
	// Reason is a short constant word for metrics and tests, for example "not-armed", "permission", "oom", "timeout".
	Reason string
	// Remedy tells the user what to do, "" if there is nothing special to do.
	Remedy string
	// Lasting says that the fault stays until somebody does something about it, so that a waiter gives up at once. A fault that is not
	// lasting may pass by itself, and waiters ride it out.
	Lasting bool
	// Err is the cause; it may be nil.
	Err error
}

func (e *StoreError) Error() string {
	msg := e.Op + ": " + e.Outcome.Error() + " (" + e.Reason + ")"
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		msg += ": " + e.Remedy
	}
	return msg
}

// Unwrap gives the outcome and the cause, so that errors.Is finds both ErrUnknown and context.Canceled.
func (e *StoreError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Outcome}
	}
	return []error{e.Outcome, e.Err}
}

// OptionError refuses what the constructor of a backend was given. Nothing was connected, and nothing is left open.
type OptionError struct {
	// Package is the package that refuses.
	Package string
	// Option is the name of the field, such as "Options.MaxTTL", or of the argument.
	Option string
	// Problem says what is wrong and what to write instead.
	Problem string
	// Err is the cause; it may be nil.
	Err error
}

func (e *OptionError) Error() string {
	msg := e.Package + ": " + e.Option + " " + e.Problem
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

// Unwrap gives the cause.
func (e *OptionError) Unwrap() error { return e.Err }

// ContextError tells how ctx ended: the error matches, by errors.Is, ctx.Err() and also context.Cause(ctx), which says nothing of the former when the
// context was given a cause of its own. It is nil while ctx has not ended.
func ContextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case err == nil, errors.Is(cause, err):
		return cause
	default:
		return fmt.Errorf("%w: %w", err, cause)
	}
}
