// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore/recordproto"
)

// LockServer is an idempotency.Store on the server that keeps the locks, for a LockNamespace with spec.idempotencyRecords. It calls the functions that the operator
// loaded, which hold the records to the largest response and to the share of the memory that the LockNamespace has: beyond it they refuse records with an
// *idempotency.StoreFullError, so that there is room for locks. It is safe for concurrent use.
type LockServer struct {
	client redis.UniversalClient
	prefix string
}

var _ idempotency.Store = (*LockServer)(nil)

// OnLockServer makes a store over a client of the LockNamespace's user, which it does not own. The prefix is that of the binding. lockstead.Client.RecordStore
// calls it with both. The error is an *idempotency.InvalidError.
func OnLockServer(client redis.UniversalClient, prefix string) (*LockServer, error) {
	switch {
	case client == nil:
		return nil, &idempotency.InvalidError{Argument: "client", Problem: "is nil: give one that logs in as the user of the binding"}
	case !strings.HasSuffix(prefix, ":"):
		return nil, &idempotency.InvalidError{Argument: "prefix", Problem: "is not that of a binding, such as lk:{payments/billing}:"}
	}
	return &LockServer{client: client, prefix: prefix}, nil
}

// NotGrantedError says that the server does not let this user keep records: the LockNamespace does not ask for them, or not any more, or the operator
// could not grant them. To the middleware it is a fault of the store.
type NotGrantedError struct {
	// Prefix is that of the LockNamespace.
	Prefix string
	// Err is what the server said.
	Err error
}

func (e *NotGrantedError) Error() string {
	return fmt.Sprintf("redisstore: the server keeps no idempotency records for %s: set spec.idempotencyRecords of the LockNamespace, and see its condition RecordsGranted: %v", e.Prefix, e.Err)
}

// Unwrap returns what the server said.
func (e *NotGrantedError) Unwrap() error { return e.Err }

// Get implements idempotency.Store.
func (s *LockServer) Get(ctx context.Context, key idempotency.Key) (idempotency.Record, error) {
	reply, err := s.call(ctx, s.client.FCallRO, recordproto.FunctionGet, key)
	if err != nil {
		return idempotency.Record{}, err
	}
	return recordOf(reply)
}

// Begin implements idempotency.Store.
func (s *LockServer) Begin(ctx context.Context, key idempotency.Key, claim idempotency.Claim) (idempotency.Record, error) {
	reply, err := s.call(ctx, s.client.FCall, recordproto.FunctionBegin, key,
		claim.Owner, tokenText(claim.Ownership), claim.Fingerprint[:], millis(claim.Lease), millis(max(claim.Retention, claim.Lease)))
	if err != nil {
		return idempotency.Record{}, err
	}
	return recordOf(reply)
}

// Complete implements idempotency.Store. A response of up to 256 bytes is always taken.
func (s *LockServer) Complete(ctx context.Context, key idempotency.Key, owner idempotency.Ownership, result idempotency.Result) error {
	function := recordproto.FunctionComplete
	if len(result.Response) <= recordproto.SmallResponse {
		function = recordproto.FunctionCompleteSmall
	}
	return s.step(ctx, "complete", function, key, owner, int(result.State), result.Response, millis(result.Retention))
}

// Abort implements idempotency.Store.
func (s *LockServer) Abort(ctx context.Context, key idempotency.Key, owner idempotency.Ownership) error {
	return s.step(ctx, "abort", recordproto.FunctionAbort, key, owner)
}

// Extend implements idempotency.Store.
func (s *LockServer) Extend(ctx context.Context, key idempotency.Key, owner idempotency.Ownership, lease time.Duration) error {
	return s.step(ctx, "extend", recordproto.FunctionExtend, key, owner, millis(lease))
}

func (s *LockServer) step(ctx context.Context, op, function string, key idempotency.Key, owner idempotency.Ownership, args ...any) error {
	reply, err := s.call(ctx, s.client.FCall, function, key, append([]any{owner.Owner, tokenText(owner)}, args...)...)
	if err != nil {
		return err
	}
	return stepped(op, reply)
}

func (s *LockServer) call(
	ctx context.Context, send func(context.Context, string, []string, ...any) *redis.Cmd, function string, key idempotency.Key, args ...any,
) (any, error) {
	// As in Store.run.
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	reply, err := send(ctx, function, []string{recordproto.RecordsKey(s.prefix)}, append([]any{key[:]}, args...)...).Result()
	if err != nil {
		return nil, s.explain(err)
	}
	return reply, nil
}

// twoNumbers are what follows a code.
var twoNumbers = regexp.MustCompile(`^(LSR_[A-Z]+) (\d+) (\d+)`)

// explain gives an error of the server its type.
func (s *LockServer) explain(err error) error {
	var refusal redis.Error
	if !errors.As(err, &refusal) {
		return fmt.Errorf("redisstore: %w", err)
	}
	text := refusal.Error()
	if match := twoNumbers.FindStringSubmatch(text); match != nil {
		first, _ := strconv.ParseInt(match[2], 10, 64)
		second, _ := strconv.ParseInt(match[3], 10, 64)
		switch match[1] {
		case recordproto.CodeFull:
			return &idempotency.StoreFullError{Used: first, Share: second, Remedy: "raise spec.idempotencyRecords.memory of the LockNamespace, or keep records for a shorter time; " +
				"a share of 0 bytes means that the memory of the server is nearly full: see condition LockSafe of the RedisInstance"}
		case recordproto.CodeTooLarge:
			return &idempotency.TooLargeError{Size: int(first), Max: int(second)}
		}
	}
	switch {
	case strings.HasPrefix(text, "OOM "):
		return &idempotency.StoreFullError{Remedy: "the memory of the server is full: see condition LockSafe of the RedisInstance"}
	case strings.HasPrefix(text, "NOPERM"), strings.HasPrefix(text, recordproto.CodeNoLimits), strings.Contains(text, "Function not found"),
		strings.Contains(text, "The user executing the script can't"), strings.Contains(text, "ACL failure in script"):
		return &NotGrantedError{Prefix: s.prefix, Err: err}
	}
	return fmt.Errorf("redisstore: %w", err)
}
