// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"context"
	"sync/atomic"

	"github.com/lockstead/lockstead/pkg/lock"
)

type executionKey struct{}

// Committed says that the effect of the request is done: from now on, no failure of the handler makes a repeat execute it again. If the handler then
// panics, or answers with something that is not stored, the repeat gets 409 with CodeResponseUnavailable. Without a key it does nothing.
func Committed(ctx context.Context) {
	if x, ok := ctx.Value(executionKey{}).(*execution); ok {
		x.committed.Store(true)
	}
}

// Fence is the fencing token of the lock that the handler runs under. Hand it to a resource that refuses smaller ones, so that an execution that was
// stopped for longer than its lease cannot write after the one that took over. It reports false without a key, and without a lock that all replicas see. The
// tokens of one key only grow; those of different keys are not comparable.
func Fence(ctx context.Context) (lock.Token, bool) {
	x, ok := ctx.Value(executionKey{}).(*execution)
	if !ok || x.owner.Token.IsZero() {
		return lock.Token{}, false
	}
	return x.owner.Token, true
}

// OperationKey names the operation that the handler does: the same for every execution of one key of a client, on whatever replica, and another for everything
// else. Write it with the effect, into a column that is unique, in one statement or transaction: then an execution that follows one which died between its effect and
// its record finds the effect, and answers from it. It is the hash that the store has as the record's key, so it changes with Policy.Route, and tells nothing of the
// client's key. It reports false without a key.
func OperationKey(ctx context.Context) (Key, bool) {
	x, ok := ctx.Value(executionKey{}).(*execution)
	if !ok {
		return Key{}, false
	}
	return x.key, true
}

// committedFlag is a flag that handlers may set from any goroutine.
type committedFlag = atomic.Bool
