// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Policy is how one route treats keys. The zero value is ready to use with a Guard that knows its callers.
type Policy struct {
	// Route is the name of the route, the same on every replica and for every path of the route, for example "/orders/{id}". Defaults to the pattern:
	// that of Mux.Handle, or http.Request.Pattern. Routers that set no Pattern need it.
	Route string
	// Required refuses requests without a key with 400. Defaults to false: they pass through untouched.
	Required bool
	// FailClosed refuses requests with 503 while lock or store are out of order, for routes where a duplicate costs money. Defaults to false: the action
	// runs, and the answer says that it was not guarded.
	FailClosed bool
	// TTL is that of the lock and the lease of the record, renewed while the handler runs: how long a key stays taken after its replica died.
	// Defaults to 30 s.
	TTL time.Duration
	// Wait is how long a duplicate waits for the first request to end. Defaults to 5 s. NoWait makes it none.
	Wait   time.Duration
	NoWait bool
	// MaxWaiters is how many requests with one key wait on this replica at the same time, each with its body in memory; more get 409 at once. It does not bound
	// waits without a lock that all replicas see. Defaults to 32.
	MaxWaiters int
	// MaxExecution is how long the handler's context lives at most, whatever the client does. Defaults to 5 min.
	MaxExecution time.Duration
	// Retention is how long an answer is kept. Defaults to 24 h.
	Retention time.Duration
	// StoreStatuses are statuses of 400 to 499 that are final for the same request, and stored like the 2xx. 401, 403, 408, 425 and 429 are refused here.
	// Defaults to none.
	StoreStatuses []int
	// Headers are replayed with Content-Type, Location, ETag, Content-Location, Content-Language, Content-Encoding, Last-Modified and Link, which always
	// are. Set-Cookie and what belongs to one connection, caller or moment is refused here. Defaults to none.
	Headers []string
	// MaxBody is how many bytes of a request with a key are read into memory; more is refused with 413. A body whose length is not
	// announced is read up to it as well. Defaults to 1 MiB.
	MaxBody int64
	// MaxResponse is how many bytes of an answer are kept. More is sent on as it comes, and a repeat learns that the request was executed without getting the
	// answer. Defaults to 1 MiB.
	MaxResponse int
	// Fingerprint stands for the body. Defaults to media type, encoding and bytes; of a multipart body the boundary, which is
	// another for each attempt, does not count.
	Fingerprint BodyFingerprint
	// Caller and ClientAddress win over those of the Guard.
	Caller        func(*http.Request) string
	ClientAddress func(*http.Request) string
}

const (
	defaultTTL          = 30 * time.Second
	defaultWait         = 5 * time.Second
	defaultMaxWaiters   = 32
	defaultMaxExecution = 5 * time.Minute
	defaultRetention    = 24 * time.Hour
	defaultMaxBody      = 1 << 20
	defaultMaxResponse  = 1 << 20
)

// InvalidError refuses an argument when the guard or a route is set up.
type InvalidError struct {
	// Argument is "store", "pattern", "reason", "Policy.TTL" and so on.
	Argument string
	// Problem says what is wrong and what is accepted.
	Problem string
}

func (e *InvalidError) Error() string { return "idempotency: " + e.Argument + ": " + e.Problem }

// Declaration says what a route does with an Idempotency-Key. Idempotent and NonIdempotent make one; the zero Declaration is refused.
type Declaration struct {
	kind   declarationKind
	policy Policy
	reason string
}

type declarationKind int

const (
	undeclared declarationKind = iota
	idempotent
	nonIdempotent
)

// Idempotent declares that a route is safe to repeat with the same key, and guards it by policy.
func Idempotent(policy Policy) Declaration {
	policy.StoreStatuses, policy.Headers = slices.Clone(policy.StoreStatuses), slices.Clone(policy.Headers)
	return Declaration{kind: idempotent, policy: policy}
}

// NonIdempotent declares that a route must not be repeated, and why. It answers 400 to a request with a key, so that no client believes that it is protected.
// Routes that issue tokens are of this kind: a replayed token may have been rotated away.
func NonIdempotent(reason string) Declaration {
	return Declaration{kind: nonIdempotent, reason: reason}
}

// minReason is the length of the shortest reason that can say something.
const minReason = 10

// CheckReason tells whether the reason of a NonIdempotent declaration is one: not empty, not shorter than 10 characters, no placeholder. The error is an
// *InvalidError.
func CheckReason(reason string) error {
	words := strings.FieldsFunc(strings.ToLower(reason), func(r rune) bool { return strings.ContainsRune(" \t\n.,:;!?-_/()[]", r) })
	switch {
	case len(words) == 0:
		return &InvalidError{Argument: "reason", Problem: "is empty: say why the route must not be repeated"}
	case slices.Contains([]string{"todo", "fixme", "tbd", "xxx", "placeholder", "wip"}, words[0]):
		return &InvalidError{Argument: "reason", Problem: fmt.Sprintf("%q is a placeholder: say why the route must not be repeated", reason)}
	case len(strings.TrimSpace(reason)) < minReason:
		return &InvalidError{Argument: "reason", Problem: fmt.Sprintf("%q is too short: say in a few words why the route must not be repeated", reason)}
	}
	return nil
}

// resolve fills in the defaults and refuses what cannot work.
func (p Policy) resolve(o Options, maxTTL time.Duration) (Policy, error) {
	for _, d := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{
		{"TTL", &p.TTL, defaultTTL}, {"Wait", &p.Wait, defaultWait},
		{"MaxExecution", &p.MaxExecution, defaultMaxExecution}, {"Retention", &p.Retention, defaultRetention},
	} {
		switch {
		case *d.value < 0:
			return p, &InvalidError{Argument: "Policy." + d.name, Problem: fmt.Sprintf("%s is negative", *d.value)}
		case *d.value > 0 && d.name == "Wait" && p.NoWait:
			return p, &InvalidError{Argument: "Policy.Wait", Problem: "is set although NoWait is: leave one of them out"}
		case *d.value == 0:
			*d.value = d.usual
		}
	}
	if p.NoWait {
		p.Wait = 0
	}
	if p.MaxWaiters == 0 {
		p.MaxWaiters = defaultMaxWaiters
	}
	if p.MaxBody == 0 {
		p.MaxBody = defaultMaxBody
	}
	if p.MaxResponse == 0 {
		p.MaxResponse = defaultMaxResponse
	}
	const minTTL = time.Second
	switch {
	case p.TTL < minTTL || p.TTL > maxTTL:
		return p, &InvalidError{Argument: "Policy.TTL", Problem: fmt.Sprintf("%s is not between %s and the %s that the lock allows", p.TTL, minTTL, maxTTL)}
	case p.Retention < p.TTL:
		return p, &InvalidError{Argument: "Policy.Retention", Problem: fmt.Sprintf("%s is shorter than the TTL %s", p.Retention, p.TTL)}
	case p.MaxWaiters < 0:
		return p, &InvalidError{Argument: "Policy.MaxWaiters", Problem: fmt.Sprintf("%d is negative: set NoWait where no request is to wait", p.MaxWaiters)}
	case p.MaxBody < 0:
		return p, &InvalidError{Argument: "Policy.MaxBody", Problem: fmt.Sprintf("%d is negative", p.MaxBody)}
	case p.MaxResponse < 0:
		return p, &InvalidError{Argument: "Policy.MaxResponse", Problem: fmt.Sprintf("%d is negative", p.MaxResponse)}
	}
	for _, status := range p.StoreStatuses {
		if !mayStore(status) {
			return p, &InvalidError{Argument: "Policy.StoreStatuses", Problem: fmt.Sprintf("%d is not final for the same request: only statuses of 400 to 499 except 401, 403, 408, 425 and 429 are", status)}
		}
	}
	headers := kept()
	for _, name := range p.Headers {
		canonical := http.CanonicalHeaderKey(name)
		if name == "" || forbidden(canonical) || strings.HasPrefix(canonical, http.TrailerPrefix) || canonical == o.ReplayHeader || canonical == o.DegradedHeader {
			return p, &InvalidError{Argument: "Policy.Headers", Problem: fmt.Sprintf("%q is never replayed: it belongs to one connection, caller or moment", name)}
		}
		if !slices.Contains(headers, canonical) {
			headers = append(headers, canonical)
		}
	}
	p.Headers = headers
	if p.Caller == nil {
		p.Caller = o.Caller
	}
	if p.ClientAddress == nil {
		p.ClientAddress = o.ClientAddress
	}
	if p.Caller == nil && p.ClientAddress == nil {
		return p, &InvalidError{Argument: "Policy.Caller", Problem: "is missing, and so is ClientAddress, on the route and on the guard: without one of them an answer could be replayed to somebody else"}
	}
	return p, nil
}

// mayStore reports whether a status that is no success can be declared as final.
func mayStore(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status <= 499
}

// stores reports whether an answer with this status is kept.
func (p Policy) stores(status int) bool {
	return status >= 200 && status <= 299 || slices.Contains(p.StoreStatuses, status)
}
