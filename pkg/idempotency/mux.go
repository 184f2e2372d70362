// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mux is an http.ServeMux on which a route that can change something is registered with a declaration, or not at all.
type Mux struct {
	guard *Guard
	mux   *http.ServeMux

	mu     sync.Mutex
	routes []Route
}

// Route is a line of the inventory.
type Route struct {
	// Pattern is as it was registered.
	Pattern string `json:"pattern"`
	// Intent is "idempotent", "non-idempotent" or "safe".
	Intent string `json:"intent"`
	// Reason is that of NonIdempotent.
	Reason string `json:"reason,omitempty"`
	// Required, FailClosed and Retention are those of the policy of an idempotent route.
	Required   bool          `json:"required,omitempty"`
	FailClosed bool          `json:"failClosed,omitempty"`
	Retention  time.Duration `json:"retention,omitempty"`
}

// NewMux makes an empty Mux.
func (g *Guard) NewMux() *Mux { return &Mux{guard: g, mux: http.NewServeMux()} }

// Handle registers a handler that treats keys as declared. It panics as http.ServeMux.Handle does, and with an *InvalidError for a declaration that
// Guard.Check refuses and for a pattern with GET, HEAD, OPTIONS or TRACE, which belongs to HandleSafe.
func (m *Mux) Handle(pattern string, d Declaration, h http.Handler) {
	if safe(pattern) {
		panic(&InvalidError{Argument: "pattern", Problem: fmt.Sprintf("%q changes nothing and needs no declaration: use HandleSafe", pattern)})
	}
	if d.policy.Route == "" {
		d.policy.Route = pattern
	}
	m.mux.Handle(pattern, m.guard.Wrap(d, h))
	route := Route{Pattern: pattern, Intent: "non-idempotent", Reason: d.reason}
	if d.kind == idempotent {
		p, _ := d.policy.resolve(m.guard.options, m.guard.maxTTL()) // Wrap has accepted it.
		route = Route{Pattern: pattern, Intent: "idempotent", Required: p.Required, FailClosed: p.FailClosed, Retention: p.Retention}
	}
	m.add(route)
}

// HandleFunc is Handle for a function.
func (m *Mux) HandleFunc(pattern string, d Declaration, f func(http.ResponseWriter, *http.Request)) {
	if f == nil {
		panic(&InvalidError{Argument: "handler", Problem: "is nil: give the function of the route"})
	}
	m.Handle(pattern, d, http.HandlerFunc(f))
}

// HandleSafe registers a handler that changes nothing. It panics with an *InvalidError if the pattern does not begin with GET, HEAD, OPTIONS or TRACE.
func (m *Mux) HandleSafe(pattern string, h http.Handler) {
	if !safe(pattern) {
		panic(&InvalidError{Argument: "pattern", Problem: fmt.Sprintf("%q can change something: begin it with GET, HEAD, OPTIONS or TRACE, or use Handle with a declaration", pattern)})
	}
	m.mux.Handle(pattern, h)
	m.add(Route{Pattern: pattern, Intent: "safe"})
}

// safe reports whether a pattern matches only methods that change nothing.
func safe(pattern string) bool {
	method, _, found := strings.Cut(pattern, " ")
	return found && method != "" && !mutating(method)
}

func (m *Mux) add(r Route) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.routes = append(m.routes, r)
}

// Routes is the inventory, ordered by pattern, for a golden file or a page of documentation.
func (m *Mux) Routes() []Route {
	m.mu.Lock()
	defer m.mu.Unlock()
	routes := slices.Clone(m.routes)
	slices.SortFunc(routes, func(a, b Route) int { return strings.Compare(a.Pattern, b.Pattern) })
	return routes
}

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }
