// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lib registers what its callers give it.
package lib

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

func Post(mux *http.ServeMux, path string, h http.Handler) { mux.Handle("POST "+path, logged(h)) } // want Post:"registers"

func Any(mux *http.ServeMux, method, path string, h http.Handler) { mux.Handle(method+" "+path, h) } // want Any:"registers"

func Chi(r chi.Router, method, path string, h http.HandlerFunc) { r.MethodFunc(method, path, h) } // want Chi:"registers"

func Twice(mux *http.ServeMux, path string, h http.Handler) { Post(mux, "/twice"+path, h) } // want Twice:"registers"

func Declared(g *idempotency.Guard, mux *http.ServeMux, path string, d idempotency.Declaration, h http.Handler) { // want Declared:"registers"
	mux.Handle("PUT "+path, g.Wrap(d, h))
}

func Fixed(g *idempotency.Guard, mux *http.ServeMux, path string, h http.Handler) { // want Fixed:"registers"
	mux.Handle("PUT "+path, g.Wrap(idempotency.Idempotent(idempotency.Policy{}), h))
}

func Two(mux *http.ServeMux, path string, a, b http.Handler) { // want Two:"registers"
	mux.Handle("POST /a"+path, a)
	mux.Handle("PATCH /b"+path, b)
}

func Endless(mux *http.ServeMux, path string, h http.Handler) { // want Endless:"registers"
	mux.Handle("PUT "+path, h)
	Endless(mux, path+"/x", h) // want "Endless registers more than 256 routes from its parameters"
}

// Var is a function that could be replaced, and is not.
var Var = func(mux *http.ServeMux, path string, h http.Handler) { mux.Handle("POST "+path, h) } // want Var:"registers"

func Get(mux *http.ServeMux, path string, h http.Handler) { mux.Handle("GET "+path, h) }

type Server struct{ Mux *http.ServeMux }

func (s *Server) Patch(path string, h http.HandlerFunc) { s.Mux.HandleFunc("PATCH "+path, h) } // want Patch:"registers"

func Generic[T any](mux *http.ServeMux, path string, h http.Handler) { mux.Handle("POST "+path, h) } // want Generic:"registers"

func logged(h http.Handler) http.Handler { return h }

// Refused is declared in this package for others.
var Refused = idempotency.NonIdempotent("moves money to an account") // want Refused:"brings non-idempotent"

func Intent() idempotency.Declaration { return idempotency.Idempotent(idempotency.Policy{}) } // want Intent:"brings idempotent"

func Wrapped(g *idempotency.Guard, h http.Handler) http.Handler { return g.Wrap(Intent(), h) } // want Wrapped:"brings idempotent"

func Sometimes(g *idempotency.Guard, h http.Handler, really bool) http.Handler {
	if really {
		return g.Wrap(Intent(), h)
	}
	return h
}

func API() (http.Handler, error) { // want API:"brings router"
	mux := http.NewServeMux()
	return mux, nil
}
