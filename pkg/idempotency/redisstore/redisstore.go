// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redisstore keeps idempotency records in a Redis or Valkey server, through a go-redis client that the application gives: of one server, of
// Sentinel or of a cluster. Every step is one script over one key.
//
// A record is a hash under <prefix><64 hexadecimal digits>. It ends by itself when its retention is over.
//
// # Assumptions
//
// What the server forgets, repeats execute again: use one with persistence (appendonly yes) and maxmemory-policy noeviction, so that a
// full server refuses new claims instead of forgetting records. A replica that is promoted may lack the last records. Leases follow the server's clock; a clock that is set forward ends them early, after which the
// fencing token and the owner still keep a stale execution from writing.
//
// Give it a server of its own, not the one that keeps the locks: records of a day fill the memory that locks need. On the server of the locks itself there is
// LockServer, for a LockNamespace that asked for it: the operator gives it a share of the memory, and its functions refuse what goes beyond.
//
// The user of a Store needs ~<prefix>* and +evalsha +eval +time +hmget +hset +pexpire +pttl +del.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Options are what New can be told. The zero value, or nil, is ready to use.
type Options struct {
	// MaxResponse is how many bytes of a response are kept; an answer that is larger is kept without its body. Defaults to 256 KiB.
	MaxResponse int
}

const defaultMaxResponse = 256 << 10

// Store is an idempotency.Store. It is safe for concurrent use.
type Store struct {
	client      redis.UniversalClient
	prefix      string
	maxResponse int
}

var _ idempotency.Store = (*Store)(nil)

// New makes a store over a client, which it does not own. The prefix tells the records of this application from all else on the server, for
// example "shop:idempotency:". The error is an *idempotency.InvalidError.
func New(client redis.UniversalClient, prefix string, options *Options) (*Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	switch {
	case client == nil:
		return nil, &idempotency.InvalidError{Argument: "client", Problem: "is nil: give one of redis.NewClient, NewFailoverClient or NewClusterClient"}
	case prefix == "":
		return nil, &idempotency.InvalidError{Argument: "prefix", Problem: "is empty: applications that share a server need prefixes that tell them apart"}
	case o.MaxResponse < 0:
		return nil, &idempotency.InvalidError{Argument: "MaxResponse", Problem: "is negative"}
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = defaultMaxResponse
	}
	return &Store{client: client, prefix: prefix, maxResponse: o.MaxResponse}, nil
}

// Get implements idempotency.Store.
func (s *Store) Get(ctx context.Context, key idempotency.Key) (idempotency.Record, error) {
	reply, err := s.run(ctx, getScript, key)
	if err != nil {
		return idempotency.Record{}, err
	}
	return recordOf(reply)
}

// Begin implements idempotency.Store.
func (s *Store) Begin(ctx context.Context, key idempotency.Key, claim idempotency.Claim) (idempotency.Record, error) {
	reply, err := s.run(ctx, beginScript, key, claim.Owner, tokenText(claim.Ownership), claim.Fingerprint[:], millis(claim.Lease), millis(max(claim.Retention, claim.Lease)))
	if err != nil {
		return idempotency.Record{}, err
	}
	return recordOf(reply)
}

// Complete implements idempotency.Store.
func (s *Store) Complete(ctx context.Context, key idempotency.Key, owner idempotency.Ownership, result idempotency.Result) error {
	if size := len(result.Response); size > s.maxResponse {
		return &idempotency.TooLargeError{Size: size, Max: s.maxResponse}
	}
	return s.step(ctx, "complete", completeScript, key, owner, int(result.State), result.Response, millis(result.Retention))
}

// Abort implements idempotency.Store.
func (s *Store) Abort(ctx context.Context, key idempotency.Key, owner idempotency.Ownership) error {
	return s.step(ctx, "abort", abortScript, key, owner)
}

// Extend implements idempotency.Store.
func (s *Store) Extend(ctx context.Context, key idempotency.Key, owner idempotency.Ownership, lease time.Duration) error {
	return s.step(ctx, "extend", extendScript, key, owner, millis(lease))
}

// step runs a script that answers as stepped reads it.
func (s *Store) step(ctx context.Context, op string, script *redis.Script, key idempotency.Key, owner idempotency.Ownership, args ...any) error {
	reply, err := s.run(ctx, script, key, append([]any{owner.Owner, tokenText(owner)}, args...)...)
	if err != nil {
		return err
	}
	return stepped(op, reply)
}

// tokenText sorts as tokens do. No token is the empty text.
func tokenText(owner idempotency.Ownership) string {
	if owner.Token.IsZero() {
		return ""
	}
	return owner.Token.String()
}

// stepped reads the answer of a step: -1, or the state that was found instead of the owner's record.
func stepped(op string, reply any) error {
	found, ok := reply.(int64)
	switch {
	case !ok:
		return fmt.Errorf("redisstore: %s: unexpected reply %T", op, reply)
	case found >= 0:
		return &idempotency.ClaimLostError{Op: op, Found: idempotency.State(found)}
	}
	return nil
}

func (s *Store) run(ctx context.Context, script *redis.Script, key idempotency.Key, args ...any) (any, error) {
	// go-redis looks at the context only when a connection is waited for, unless it is told otherwise.
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	reply, err := script.Run(ctx, s.client, []string{s.prefix + key.String()}, args...).Result()
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	return reply, nil
}

// millis rounds up, so that no time is shortened.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// errReply: the script, which is ours, answered what it cannot.
var errReply = errors.New("redisstore: the record has not the form that this version writes")

// recordOf reads {state, owner, token, fingerprint, rest of the lease in ms, response}.
func recordOf(reply any) (idempotency.Record, error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) != 6 {
		return idempotency.Record{}, errReply
	}
	state, okState := fields[0].(int64)
	if okState && state == int64(idempotency.Absent) {
		return idempotency.Record{}, nil
	}
	owner, okOwner := fields[1].(string)
	token, okToken := fields[2].(string)
	fingerprint, okFingerprint := fields[3].(string)
	left, okLeft := fields[4].(int64)
	response, okResponse := fields[5].(string)
	r := idempotency.Record{State: idempotency.State(state)}
	if !okState || !okOwner || !okToken || !okFingerprint || !okLeft || !okResponse || state < 0 || state > 255 || len(fingerprint) != len(r.Fingerprint) {
		return idempotency.Record{}, errReply
	}
	r.Owner = owner
	if token != "" {
		parsed, err := driver.ParseToken(token)
		if err != nil {
			return idempotency.Record{}, fmt.Errorf("%w: %w", errReply, err)
		}
		r.Token = parsed
	}
	copy(r.Fingerprint[:], fingerprint)
	if r.State == idempotency.InFlight {
		r.Left = time.Duration(max(0, left)) * time.Millisecond
		r.Expired = left <= 0
	} else {
		r.Response = []byte(response)
	}
	return r, nil
}
