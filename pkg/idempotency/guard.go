// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// Options are what New can be told. The zero value, or nil, is ready to use, but then every policy has to know its callers.
type Options struct {
	// Caller returns the authenticated caller of a request, "" if there is none. Defaults to none.
	Caller func(*http.Request) string
	// ClientAddress returns the address of a caller that is not authenticated: RemoteAddress, or ForwardedFor behind proxies. Clients that share an
	// address share their keys. Defaults to none.
	ClientAddress func(*http.Request) string
	// PolicyLink is the URL of the page that tells clients how keys are treated and for how long answers are kept. Refusals link to it, and their type is
	// this link with the code as fragment. Defaults to none, and the type "about:blank".
	PolicyLink string
	// Header is the name of the header with the key. Defaults to Idempotency-Key.
	Header string
	// ReplayHeader is set to "true" on replays. Defaults to X-Idempotent-Replay.
	ReplayHeader string
	// DegradedHeader is set to a Reason on answers of requests that were not fully guarded. Defaults to X-Idempotent-Degraded.
	DegradedHeader string
	// IgnoreKeys lets requests with a key through on NonIdempotent routes. Defaults to false: they get 400.
	IgnoreKeys bool
	// StoreTimeout bounds one request to the store before the handler runs. Defaults to 2 s.
	StoreTimeout time.Duration
	// CommitTimeout bounds the attempts to store the answer, whatever the client does. Defaults to 5 s.
	CommitTimeout time.Duration
	// Observer is told of every request with a key and of every fault. Defaults to none.
	Observer *Observer
	// Logger gets Warn records for faults, and one when there is no lock that all replicas see. Defaults to no logging.
	Logger *slog.Logger
	// Clock is for tests. Defaults to clock.Boot.
	Clock clock.Clock
}

const (
	defaultStoreTimeout  = 2 * time.Second
	defaultCommitTimeout = 5 * time.Second
)

// Guard makes handlers idempotent. It is safe for concurrent use; make one for a process.
type Guard struct {
	store   Store
	client  *lock.Client // nil without a lock that all replicas see
	options Options
	log     *slog.Logger
	clock   clock.Clock
	stripes *stripes
	waiters *waiters
}

// New makes a Guard over a store and a lock client, which it does not own. A nil client is accepted for applications with one replica: then semaphores
// of this process serve, and the log says so once. The error is an *InvalidError.
func New(store Store, client *lock.Client, options *Options) (*Guard, error) {
	if store == nil {
		return nil, &InvalidError{Argument: "store", Problem: "is nil: use one of redisstore, pgstore or memstore"}
	}
	var o Options
	if options != nil {
		o = *options
	}
	for _, d := range []struct {
		name, usual string
		value       *string
	}{
		{"Header", "Idempotency-Key", &o.Header},
		{"ReplayHeader", "X-Idempotent-Replay", &o.ReplayHeader},
		{"DegradedHeader", "X-Idempotent-Degraded", &o.DegradedHeader},
	} {
		if *d.value == "" {
			*d.value = d.usual
		}
		*d.value = http.CanonicalHeaderKey(*d.value)
	}
	for _, d := range []struct {
		name  string
		usual time.Duration
		value *time.Duration
	}{
		{"StoreTimeout", defaultStoreTimeout, &o.StoreTimeout},
		{"CommitTimeout", defaultCommitTimeout, &o.CommitTimeout},
	} {
		if *d.value < 0 {
			return nil, &InvalidError{Argument: d.name, Problem: d.value.String() + " is negative"}
		}
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	if o.PolicyLink != "" {
		if u, err := url.Parse(o.PolicyLink); err != nil || u.Fragment != "" || u.String() != o.PolicyLink {
			return nil, &InvalidError{Argument: "PolicyLink", Problem: "is no URL without a fragment"}
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.Boot()
	}
	if o.Observer == nil {
		o.Observer = &Observer{}
	}
	if client == nil {
		o.Logger.Warn("no lock that all replicas see: requests wait for each other within this process only; give idempotency.New the client of lockstead.Open")
	}
	return &Guard{store: store, client: client, options: o, log: o.Logger, clock: o.Clock, stripes: newStripes(), waiters: newWaiters()}, nil
}

// maxTTL is the longest TTL that a policy can have.
func (g *Guard) maxTTL() time.Duration {
	if g.client == nil {
		return time.Hour
	}
	return g.client.MaxTTL()
}

// Check tells whether Wrap would accept a declaration. The error is an *InvalidError.
func (g *Guard) Check(d Declaration) error {
	switch d.kind {
	case idempotent:
		_, err := d.policy.resolve(g.options, g.maxTTL())
		return err
	case nonIdempotent:
		return CheckReason(d.reason)
	default:
		return &InvalidError{Argument: "declaration", Problem: "is zero: use Idempotent or NonIdempotent"}
	}
}

// Wrap returns a handler that treats keys as declared, and calls next. Like http.ServeMux.Handle, it panics when it is misused: with the *InvalidError
// that Check returns, or when next is nil.
//
// Mount it inside of authentication, rate limits and compression, and outside of http.TimeoutHandler and its like. The request that next gets is a copy with
// the body in memory and a context of its own: it ends with the lock or after Policy.MaxExecution, and not when the client leaves.
func (g *Guard) Wrap(d Declaration, next http.Handler) http.Handler {
	if err := g.Check(d); err != nil {
		panic(err)
	}
	if next == nil {
		panic(&InvalidError{Argument: "next", Problem: "is nil: give the handler of the route"})
	}
	if d.kind == nonIdempotent {
		return &refusing{guard: g, next: next}
	}
	policy, _ := d.policy.resolve(g.options, g.maxTTL()) // Checked above.
	return &guarded{guard: g, policy: policy, next: next}
}

// refusing is a route without idempotency.
type refusing struct {
	guard *Guard
	next  http.Handler
}

func (h *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g := h.guard; !g.options.IgnoreKeys && mutating(r.Method) && present(r.Header[g.options.Header]) {
		g.answered(r.Context(), r.Pattern, OutcomeRefused)
		g.writeProblem(w, CodeKeyUnsupported, "This operation cannot be repeated safely. Send it without the "+g.options.Header+" header.", nil)
		return
	}
	h.next.ServeHTTP(w, r)
}

// mutating reports whether a method can have an effect that matters twice.
func mutating(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "":
		return false
	}
	return true
}
