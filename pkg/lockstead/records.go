// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead

import (
	"fmt"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore"
)

// NoRecordsError says that the lock namespace has no place for idempotency records.
type NoRecordsError struct {
	// LockNamespace is "<kubernetes namespace>/<name>", or empty if no binding was read.
	LockNamespace string
	// Problem says why, and what to do.
	Problem string
}

func (e *NoRecordsError) Error() string {
	if e.LockNamespace == "" {
		return "lockstead: no idempotency records: " + e.Problem
	}
	return fmt.Sprintf("lockstead: LockNamespace %s keeps no idempotency records: %s", e.LockNamespace, e.Problem)
}

// RecordStore is the store for idempotency records beside the locks, for a LockNamespace with spec.idempotencyRecords. It contacts no server. The records may take the
// share of the server's memory that the binding tells; beyond it the server refuses them with an idempotency.ErrStoreFull, and grants locks. The error is a
// *NoRecordsError when the binding does not allow records, as it is at this moment: after the LockNamespace was changed, it takes the kubelet a minute or two to bring
// the new one. The store ends with Close. If records are taken away while the process runs, every step of the store returns a *redisstore.NotGrantedError.
func (c *Client) RecordStore() (*redisstore.LockServer, error) {
	b := c.binding.Load()
	switch {
	case b == nil:
		return nil, &NoRecordsError{Problem: "no binding was read that could allow them: make a store of your own, for example with redisstore.New"}
	case b.Type != binding.TypeRedis || c.backend.redis == nil:
		return nil, &NoRecordsError{b.LockNamespace, "its locks are not kept in Redis: create it on a RedisInstance, or make a store of your own"}
	case b.Redis.Records == nil:
		return nil, &NoRecordsError{b.LockNamespace, "set spec.idempotencyRecords (it can be {}), and see its condition RecordsGranted; or make a store of your own"}
	}
	return redisstore.OnLockServer(c.backend.redis, b.Prefix) //nolint:wrapcheck // It names its package.
}
