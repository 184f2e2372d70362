// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package wrappers

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"example.com/routers/wrappers/lib"
	"github.com/lockstead/lockstead/pkg/idempotency"
)

var h http.Handler

func serve(http.ResponseWriter, *http.Request) {}

func Routes(g *idempotency.Guard, mux *http.ServeMux, s *lib.Server, r chi.Router, paths []string) {
	wrapped := g.Wrap(lib.Intent(), h)
	lib.Post(mux, "/a", h) // want "POST /a does not say"
	lib.Post(mux, "/b", wrapped)
	lib.Post(mux, paths[0], wrapped) // want "is not constant"
	lib.Any(mux, "PUT", "/c", h)     // want "PUT /c does not say"
	lib.Any(mux, "GET", "/c", h)
	lib.Any(mux, paths[0], "/c", h)  // want "is not constant"
	lib.Chi(r, "PATCH", "/d", serve) // want "PATCH /d does not say"
	lib.Twice(mux, "/e", h)          // want "POST /twice/e does not say"
	lib.Declared(g, mux, "/f", lib.Refused, h)
	lib.Declared(g, mux, "/g", idempotency.Declaration{}, h) // want "PUT /g has a declaration that cannot be read"
	lib.Fixed(g, mux, "/h", h)
	lib.Two(mux, "/x", wrapped, h)  // want "PATCH /b/x does not say"
	lib.Two(mux, "/x", h, wrapped)  // want "POST /a/x does not say"
	lib.Endless(mux, "/x", wrapped) // want "Endless registers more routes than the 256 that are followed"
	lib.Var(mux, "/p", h)           // want "POST /p does not say"
	lib.Var(mux, "/q", wrapped)
	lib.Post(arguments()) // want "the results of another call"
	lib.Get(mux, "/i", h)
	s.Patch("/j", serve)           // want "PATCH /j does not say"
	lib.Generic[int](mux, "/k", h) // want "POST /k does not say"
	lib.Post(mux, "/l", lib.Wrapped(g, h))
	lib.Post(mux, "/m", lib.Sometimes(g, h, true)) // want "POST /m does not say"
	api, _ := lib.API()
	mux.Handle("/api/", api) // want "ANY /api/ does not say"
	post := func(path string, h http.Handler) { mux.Handle("POST "+path, h) }
	post("/n", h) // want "POST /n does not say"
	post("/o", wrapped)
	each(mux, func(mux *http.ServeMux, path string, h http.Handler) { mux.Handle("POST "+path, h) }) // want "is not constant"
	other := func(mux *http.ServeMux, path string, h http.Handler) { mux.Handle("POST "+path, h) }
	each(mux, other)    // want "other registers routes and is used as a value"
	each(mux, lib.Post) // want "Post registers routes and is used as a value"
	local(mux, h)       // want "POST /local does not say"
	local(mux, wrapped)
}

func each(*http.ServeMux, func(*http.ServeMux, string, http.Handler)) {}

func local(mux *http.ServeMux, h http.Handler) { mux.Handle("POST /local", h) } // want local:"registers"

func arguments() (*http.ServeMux, string, http.Handler) { return nil, "", nil }
