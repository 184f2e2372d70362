// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// execution is one call of the handler.
type execution struct {
	*attempt
	owner     Ownership
	committed committedFlag
	// recorded says that Begin granted the claim. Without, the store did not answer, and may have.
	recorded bool
	// claimed is from when the lease counts: before the claim was sent.
	claimed clock.Instant
}

// run claims the record and executes the request, or finds that it must not. It returns how to answer, which is for later, when the lock is free.
func (a *attempt) run(ctx context.Context, token lock.Token) (finish func()) {
	x := &execution{attempt: a, owner: Ownership{Owner: rand.Text(), Token: token}, claimed: a.guard.clock.Now()}
	record, err := x.begin(ctx)
	switch {
	case err == nil:
		if v := decideBegun(record, x.claim()); v != execute {
			return func() { a.answer(v, record, 0) }
		}
		x.recorded = true
	case !a.degrade(ctx, storeReason(err, ReasonStore), err), ctx.Err() != nil: // With the lock over as well, nothing keeps executions apart.
		_ = x.abort(ctx) // The store may have taken the claim; if this fails too, the lease ends it.
		return a.failClosed
	}
	return x.execute(ctx)
}

// storeReason is the reason for a fault of the store, which is otherwise one.
func storeReason(err error, otherwise Reason) Reason {
	if errors.Is(err, ErrStoreFull) {
		return ReasonStoreFull
	}
	return otherwise
}

func (x *execution) claim() Claim {
	return Claim{Ownership: x.owner, Fingerprint: x.fingerprint, Lease: x.policy.TTL, Retention: x.policy.Retention}
}

func (x *execution) begin(ctx context.Context) (Record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.guard.options.StoreTimeout)
	defer cancel()
	return x.guard.store.Begin(ctx, x.key, x.claim())
}

// execute calls the handler, stores what it did, and returns how to answer.
func (x *execution) execute(ctx context.Context) (finish func()) {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, executionKey{}, x))
	defer cancel(nil)
	rec := newRecorder(x.w, x.policy.MaxResponse, x.mark)
	r := x.r.WithContext(ctx)
	beat := x.startHeartbeat(cancel)
	returned := false
	defer func() {
		beat.end()
		if x.r.MultipartForm == nil {
			x.r.MultipartForm = r.MultipartForm // The server removes its files.
		}
		if !returned { // It panicked, or ended its goroutine. The panic goes on.
			x.abandon(ctx, rec)
		}
	}()
	x.next.ServeHTTP(rec.writer(), r)
	returned = true
	beat.end()
	rec.finish()
	x.outcome = OutcomeExecuted
	if err := x.commit(ctx, rec); err != nil {
		reason := storeReason(err, ReasonCommit)
		if errors.Is(err, ErrClaimLost) && x.recorded {
			reason = ReasonClaimLost
		}
		x.degrade(ctx, reason, err)
	}
	if len(x.degraded) > 0 {
		x.outcome = OutcomeDegraded
	}
	return rec.send
}

// abandon ends an execution whose handler did not return: nothing is stored, unless the effect is known to be done.
func (x *execution) abandon(ctx context.Context, rec *recorder) {
	if !x.committed.Load() {
		if err := x.abort(ctx); err != nil && !errors.Is(err, ErrClaimLost) {
			x.guard.log.WarnContext(ctx, "idempotency record not removed after a panic; it ends with its lease", "route", x.route, "error", err)
		}
		return
	}
	if err := x.complete(ctx, Result{State: Tombstone, Response: response{status: rec.status}.encode(), Retention: x.policy.Retention}); err != nil {
		x.degrade(ctx, storeReason(err, ReasonCommit), err)
	}
}

// commit stores what the handler did, on a time of its own that no client can cut short.
func (x *execution) commit(ctx context.Context, rec *recorder) error {
	result := judge(rec, x.policy, x.committed.Load())
	if result.State == Absent {
		return x.abort(ctx)
	}
	return x.complete(ctx, result)
}

// judge decides what is kept of an answer: Done with the answer, Tombstone without, or Absent for an answer that a repeat may get anew.
func judge(rec *recorder, policy Policy, committed bool) Result {
	r := response{status: rec.status, header: keep(rec.header, policy.Headers)}
	result := Result{State: Tombstone, Retention: policy.Retention}
	switch {
	case rec.mode == modeHijacked || rec.status == http.StatusSwitchingProtocols:
		// What went over the connection is not known: it is not run twice.
		r = response{status: http.StatusSwitchingProtocols}
	case !policy.stores(rec.status) && !committed:
		return Result{State: Absent}
	case !policy.stores(rec.status) || rec.mode == modeStreaming:
		// Executed, and not to be executed again.
	default:
		result.State = Done
		r.body, r.trailer = rec.body, rec.trailers()
	}
	result.Response = r.encode()
	return result
}

// commitPause is between two attempts to store an answer.
const commitPause = 100 * time.Millisecond

// complete stores a result, or what is smaller if the store has no room for it. It tries until CommitTimeout: an answer that is not stored can make the repeat run
// again.
func (x *execution) complete(ctx context.Context, result Result) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.guard.options.CommitTimeout)
	defer cancel()
	var full error
	for {
		err := x.completeOnce(ctx, result)
		switch {
		case err == nil && full != nil:
			x.degrade(ctx, ReasonStoreFull, full)
			return nil
		case err == nil || errors.Is(err, ErrClaimLost):
			return err
		case errors.Is(err, ErrTooLarge), errors.Is(err, ErrStoreFull):
			if errors.Is(err, ErrStoreFull) {
				full = err
			}
			next, ok := smaller(result, err)
			if !ok || full != nil && !x.recorded {
				return err // It has no room in the next seconds either.
			}
			result = next
			continue
		}
		pause := x.guard.clock.NewTimer(commitPause)
		select {
		case <-pause.C():
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// smaller is what is kept instead of a result that a store refused for its size: the answer without its body, and in a store that is full without its headers.
func smaller(result Result, refusal error) (Result, bool) {
	kept, err := decodeResponse(result.Response)
	switch {
	case err != nil:
		return result, false
	case result.State == Done:
		kept.body, kept.trailer = nil, nil
	case errors.Is(refusal, ErrStoreFull) && len(kept.header) > 0:
		kept.header = nil
	default:
		return result, false
	}
	result.State, result.Response = Tombstone, kept.encode()
	return result, true
}

func (x *execution) completeOnce(ctx context.Context, result Result) error {
	ctx, cancel := context.WithTimeout(ctx, x.guard.options.StoreTimeout)
	defer cancel()
	if !x.recorded {
		// The store did not answer Begin. If it answers now, the repeat at least is guarded.
		record, err := x.guard.store.Begin(ctx, x.key, x.claim())
		if err != nil {
			return fmt.Errorf("idempotency: the claim: %w", err)
		}
		if record.State != Absent && !record.Owned(x.owner) {
			return &ClaimLostError{Op: "begin", Found: record.State}
		}
	}
	return x.guard.store.Complete(ctx, x.key, x.owner, result)
}

// abort frees the key. If it cannot, the lease does.
func (x *execution) abort(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.guard.options.StoreTimeout)
	defer cancel()
	err := x.guard.store.Abort(ctx, x.key, x.owner)
	if err != nil && !x.recorded {
		return nil // Told as ReasonStore already; there may be nothing to abort.
	}
	return err
}
