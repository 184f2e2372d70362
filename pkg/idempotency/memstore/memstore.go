// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memstore keeps idempotency records in the memory of one process, for tests and for applications with one replica: another replica
// knows nothing of them, and a restart forgets them. It says so in the log, once.
package memstore

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// Options are what New can be told. The zero value, or nil, is ready to use.
type Options struct {
	// MaxBytes is how many bytes of responses are kept at most; what does not fit is kept without its body. Defaults to 64 MiB.
	MaxBytes int
	// Logger gets one Warn record that says what this store is not. Defaults to no logging.
	Logger *slog.Logger
	// Clock runs leases and retentions. Defaults to clock.Boot.
	Clock clock.Clock
}

const defaultMaxBytes = 64 << 20

// Store is an idempotency.Store. It is safe for concurrent use.
type Store struct {
	clock    clock.Clock
	maxBytes int

	mu      sync.Mutex
	records map[idempotency.Key]entry
	bytes   int
	swept   clock.Instant
}

var _ idempotency.Store = (*Store)(nil)

type entry struct {
	record  idempotency.Record
	lease   clock.Instant
	expires clock.Instant
}

// New makes an empty store. The error is an *idempotency.InvalidError.
func New(options *Options) (*Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	if o.MaxBytes < 0 {
		return nil, &idempotency.InvalidError{Argument: "MaxBytes", Problem: "is negative"}
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Clock == nil {
		o.Clock = clock.Boot()
	}
	if o.Logger != nil {
		o.Logger.Warn("idempotency records are in the memory of this process: other replicas do not see them, and a restart forgets them; use redisstore or pgstore")
	}
	return &Store{clock: o.Clock, maxBytes: o.MaxBytes, records: make(map[idempotency.Key]entry)}, nil
}

// Get implements idempotency.Store.
func (s *Store) Get(ctx context.Context, key idempotency.Key) (idempotency.Record, error) {
	if err := ctx.Err(); err != nil {
		return idempotency.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	return s.find(key, now).seen(now), nil
}

// Begin implements idempotency.Store.
func (s *Store) Begin(ctx context.Context, key idempotency.Key, claim idempotency.Claim) (idempotency.Record, error) {
	if err := ctx.Err(); err != nil {
		return idempotency.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.sweep(now)
	found := s.find(key, now).seen(now)
	free := found.State == idempotency.Absent ||
		found.State == idempotency.InFlight && found.Expired && (claim.Token.IsZero() || !claim.Token.Less(found.Token))
	if !free {
		return found, nil
	}
	e := entry{
		record: idempotency.Record{State: idempotency.InFlight, Ownership: claim.Ownership, Fingerprint: claim.Fingerprint},
		lease:  now.Add(claim.Lease), expires: now.Add(claim.Retention),
	}
	s.records[key] = e
	return e.seen(now), nil
}

// Complete implements idempotency.Store.
func (s *Store) Complete(ctx context.Context, key idempotency.Key, owner idempotency.Ownership, result idempotency.Result) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	e := s.find(key, now)
	switch {
	case e.record.Owned(owner):
	case e.record.State == result.State && e.record.Ownership == owner:
		return nil
	default:
		return &idempotency.ClaimLostError{Op: "complete", Found: e.record.State}
	}
	if size := len(result.Response); s.bytes+size > s.maxBytes && result.State == idempotency.Done {
		return &idempotency.TooLargeError{Size: size, Max: max(0, s.maxBytes-s.bytes)}
	}
	e.record.State, e.record.Response = result.State, bytes.Clone(result.Response)
	e.expires = now.Add(result.Retention)
	s.bytes += len(result.Response)
	s.records[key] = e
	return nil
}

// Abort implements idempotency.Store.
func (s *Store) Abort(ctx context.Context, key idempotency.Key, owner idempotency.Ownership) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(key, s.clock.Now())
	switch {
	case e.record.State == idempotency.Absent:
		return nil
	case !e.record.Owned(owner):
		return &idempotency.ClaimLostError{Op: "abort", Found: e.record.State}
	}
	s.remove(key)
	return nil
}

// Extend implements idempotency.Store.
func (s *Store) Extend(ctx context.Context, key idempotency.Key, owner idempotency.Ownership, lease time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	e := s.find(key, now)
	if !e.record.Owned(owner) {
		return &idempotency.ClaimLostError{Op: "extend", Found: e.record.State}
	}
	e.lease = now.Add(lease)
	e.expires = max(e.expires, e.lease)
	s.records[key] = e
	return nil
}

// find returns the entry of key, zero if its retention is over; s.mu is held.
func (s *Store) find(key idempotency.Key, now clock.Instant) entry {
	e, ok := s.records[key]
	if ok && now >= e.expires {
		s.remove(key)
		return entry{}
	}
	return e
}

func (s *Store) remove(key idempotency.Key) {
	s.bytes -= len(s.records[key].record.Response)
	delete(s.records, key)
}

// sweepInterval is how often records are removed that nobody asks for.
const sweepInterval = time.Minute

func (s *Store) sweep(now clock.Instant) {
	if now.Sub(s.swept) < sweepInterval {
		return
	}
	s.swept = now
	for key, e := range s.records {
		if now >= e.expires {
			s.remove(key)
		}
	}
}

// seen is the record as a caller sees it at an instant.
func (e entry) seen(now clock.Instant) idempotency.Record {
	r := e.record
	if r.State == idempotency.InFlight {
		r.Left = max(0, e.lease.Sub(now))
		r.Expired = r.Left == 0
	}
	r.Response = bytes.Clone(r.Response)
	return r
}
