// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// guarded is a route with idempotency.
type guarded struct {
	guard  *Guard
	policy Policy
	next   http.Handler
}

func (h *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := h.guard
	switch {
	case !mutating(r.Method):
		h.next.ServeHTTP(w, r)
	case present(r.Header[g.options.Header]):
		a := &attempt{guarded: h, w: w, r: r, route: cmp.Or(h.policy.Route, r.Pattern), outcome: OutcomePanicked}
		defer func() { g.answered(r.Context(), a.route, a.outcome) }()
		a.serve()
	case h.policy.Required:
		g.answered(r.Context(), cmp.Or(h.policy.Route, r.Pattern), OutcomeRefused)
		g.writeProblem(w, CodeKeyMissing, "This operation requires the header "+g.options.Header+" with a key that is new for every operation, for example a UUID.", nil)
	default:
		h.next.ServeHTTP(w, r)
	}
}

func (g *Guard) answered(ctx context.Context, route string, outcome Outcome) {
	if hook := g.options.Observer.Answered; hook != nil {
		hook(ctx, AnsweredEvent{Route: route, Outcome: outcome})
	}
}

// attempt is one request with a key.
type attempt struct {
	*guarded
	w           http.ResponseWriter
	r           *http.Request
	route       string
	key         Key
	fingerprint Fingerprint
	outcome     Outcome
	degraded    []Reason
}

// errGone: the client left, or its request ended otherwise, before its turn.
var errGone = errors.New("idempotency: the request ended while it waited")

func (a *attempt) serve() {
	if !a.identify() {
		return
	}
	// A fault here is not the end: Begin asks again, and decides what a fault means.
	if record, err := a.get(); err == nil {
		if v := decide(record, a.fingerprint); v != execute && v != inFlight {
			a.answer(v, record, 0)
			return
		}
	} else if a.r.Context().Err() == nil {
		a.guard.log.DebugContext(a.r.Context(), "first look at an idempotency record failed", "route", a.route, "error", err)
	}
	if a.guard.client == nil {
		a.underStripe()
		return
	}
	a.underLock()
}

// identify reads all that the key and the fingerprint are made of, or refuses the request.
func (a *attempt) identify() bool {
	if a.route == "" {
		a.guard.log.ErrorContext(a.r.Context(), "a guarded route has no name: set Policy.Route, since the router does not set http.Request.Pattern")
		return a.refuse(CodeRouteUnknown, "The server has to name the route before it can take an "+a.guard.options.Header+".")
	}
	clientKey, err := ParseKey(a.r.Header[a.guard.options.Header])
	if err != nil {
		return a.refuse(CodeKeyInvalid, "The "+a.guard.options.Header+" header was refused: "+err.Error()+".")
	}
	s, ok := subjectOf(a.r, a.policy.Caller, a.policy.ClientAddress)
	if !ok {
		return a.refuse(CodeSubjectUnknown, "A request with an "+a.guard.options.Header+" must come from a caller that the server can tell from others.")
	}
	body, err := a.readBody()
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return a.refuse(CodeBodyTooLarge, "Send a smaller body, or send it without the "+a.guard.options.Header+" header if the operation allows it.")
	}
	if err == nil {
		a.fingerprint, err = fingerprintOf(a.r, body, a.policy.Fingerprint)
	}
	if err != nil {
		return a.refuse(CodeBodyUnreadable, "The body ended early or is not what this operation takes.")
	}
	a.key = storedKey(s, a.r.Method, a.route, clientKey)
	return true
}

// readBody reads the body and puts it back.
func (a *attempt) readBody() ([]byte, error) {
	if a.r.ContentLength > a.policy.MaxBody {
		return nil, &http.MaxBytesError{Limit: a.policy.MaxBody}
	}
	if a.r.Body == nil || a.r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(a.w, a.r.Body, a.policy.MaxBody))
	if err != nil {
		return nil, err
	}
	a.r.Body = io.NopCloser(bytes.NewReader(body))
	a.r.ContentLength = int64(len(body))
	a.r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return body, nil
}

// refuse answers and reports false.
func (a *attempt) refuse(code Code, detail string) bool {
	a.outcome = OutcomeRefused
	a.guard.writeProblem(a.w, code, detail, nil)
	return false
}

func (a *attempt) get() (Record, error) {
	ctx, cancel := context.WithTimeout(a.r.Context(), a.guard.options.StoreTimeout)
	defer cancel()
	return a.guard.store.Get(ctx, a.key)
}

// degrade notes a fault. It reports whether the route goes on.
func (a *attempt) degrade(ctx context.Context, reason Reason, err error) bool {
	a.guard.log.WarnContext(ctx, "idempotency is degraded", "route", a.route, "reason", string(reason), "error", err)
	if hook := a.guard.options.Observer.Degraded; hook != nil {
		hook(ctx, DegradedEvent{Route: a.route, Reason: reason, Err: err})
	}
	if !slices.Contains(a.degraded, reason) {
		a.degraded = append(a.degraded, reason)
	}
	return !a.policy.FailClosed
}

// mark shows on the answer what was missing.
func (a *attempt) mark(h http.Header) {
	for _, reason := range a.degraded {
		h.Add(a.guard.options.DegradedHeader, string(reason))
	}
}

// underLock executes the request under the lock of its key. The wait ends with the request, the execution does not.
func (a *attempt) underLock() {
	leave, ok := a.guard.waiters.enter(a.key, a.policy.MaxWaiters)
	if !ok {
		a.contended(nil)
		return
	}
	defer leave()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(a.r.Context()))
	defer cancel(nil)
	stop := context.AfterFunc(a.r.Context(), func() { cancel(errGone) })
	defer stop()
	var finish func()
	err := a.guard.client.Do(ctx, lock.Key("idempotency", a.key.String()), func(ctx context.Context, h *lock.Handle) error {
		leave()
		if !stop() {
			return errGone
		}
		finish = a.run(ctx, h.Token())
		return nil
	}, &lock.DoOptions{TTL: a.policy.TTL, Wait: a.policy.Wait, MaxHold: a.policy.MaxExecution})
	switch {
	case finish != nil: // The execution is over, and what became of the lock in the end does not change it: the record is what counts.
		finish()
	case a.r.Context().Err() != nil:
		a.gone()
	case errors.Is(err, lock.ErrHeld):
		a.contended(err)
	case a.degrade(a.r.Context(), ReasonLock, err):
		a.underStripe()
	default:
		a.failClosed()
	}
}

// underStripe executes the request without a lock that all replicas see.
func (a *attempt) underStripe() {
	a.held()()
}

// held executes the request while it holds the stripe, and returns how to answer.
func (a *attempt) held() (finish func()) {
	release, err := a.guard.stripes.acquire(a.r.Context(), a.key)
	if err != nil {
		return a.gone
	}
	defer release()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(a.r.Context()))
	defer cancel(nil)
	timer := a.guard.clock.AfterFunc(a.policy.MaxExecution, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	return a.run(ctx, lock.Token{})
}

// contended answers a request that did not get the lock: it never executes.
func (a *attempt) contended(err error) {
	left := time.Duration(0)
	if held, ok := errors.AsType[*lock.HeldError](err); ok {
		left = held.Remaining
	}
	record, err := a.get()
	if err != nil {
		a.degrade(a.r.Context(), ReasonStore, err)
	}
	v := decide(record, a.fingerprint)
	if v == execute {
		v = inFlight
	}
	a.answer(v, record, left)
}

// answer answers from a record; left is for a request that is in flight by the word of the lock.
func (a *attempt) answer(v verdict, record Record, left time.Duration) {
	g, header := a.guard, a.guard.options.Header
	a.mark(a.w.Header())
	switch v {
	case mismatch:
		a.outcome = OutcomeMismatch
		g.writeProblem(a.w, CodeMismatch, "The "+header+" was used for a request with another path, query or body. Use a new key for a new request.", nil)
	case inFlight, execute:
		a.outcome = OutcomeInFlight
		if record.Left > 0 {
			left = record.Left
		}
		g.writeProblem(a.w, CodeInFlight, "A request with this "+header+" is being executed. Repeat it later with the same key.", func(p *problem) { p.RetryAfter = retryAfter(left) })
	case replay, buried:
		a.replay(v, record)
	}
}

// gone answers a request that ended before its turn, in case somebody still listens.
func (a *attempt) gone() {
	a.outcome = OutcomeGone
	a.guard.writeProblem(a.w, CodeGuardUnavailable, "The request ended while it waited for an earlier one. It was not executed.", func(p *problem) { p.RetryAfter = 1 })
}

func (a *attempt) failClosed() {
	a.outcome = OutcomeFailedClosed
	a.mark(a.w.Header())
	a.guard.writeProblem(a.w, CodeGuardUnavailable, "The request was not executed. Repeat it with the same "+a.guard.options.Header+".", func(p *problem) { p.RetryAfter = 1 })
}
