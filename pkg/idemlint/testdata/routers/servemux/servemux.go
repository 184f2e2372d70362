// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package servemux

import (
	"net/http"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

const orders = "/orders"

var pattern = "POST /set"

func init() { pattern = "POST /twice" }

var h http.Handler

func serve(http.ResponseWriter, *http.Request) {}

func Routes(g *idempotency.Guard, mux *http.ServeMux, names []string) {
	idem := idempotency.Idempotent(idempotency.Policy{})
	mux.Handle("POST "+orders, g.Wrap(idem, h))
	mux.Handle("POST /a", h)                     // want "POST /a does not say"
	mux.HandleFunc("PUT /a", serve)              // want "PUT /a does not say"
	mux.HandleFunc("PATCH /a", serve)            // want "PATCH /a does not say"
	mux.HandleFunc("POST  example.com/a", serve) // want "POST example.com/a does not say"
	mux.HandleFunc("GET /a", serve)
	mux.HandleFunc("DELETE /a", serve)
	mux.HandleFunc("GET "+pattern, serve)
	mux.HandleFunc("/a", serve)               // want "ANY /a does not say .* or name its method"
	http.HandleFunc("/b", serve)              // want "ANY /b does not say"
	http.Handle("POST /b", h)                 // want "POST /b does not say"
	http.DefaultServeMux.Handle("POST /c", h) // want "POST /c does not say"
	mux.HandleFunc(pattern, serve)            // want "is not constant"
	for _, name := range names {
		mux.HandleFunc("POST /"+name, serve) // want "is not constant"
	}
	mux.HandleFunc("POST /d", func(w http.ResponseWriter, r *http.Request) { // want "POST /d does not say"
		if r.ContentLength == 0 {
			return
		}
		g.Wrap(idem, h).ServeHTTP(w, r)
	})
	mux.HandleFunc("POST /e", func(w http.ResponseWriter, r *http.Request) { g.Wrap(idem, h).ServeHTTP(w, r) })
	mux.HandleFunc("POST /f", g.Wrap(idem, h).ServeHTTP)
	mux.Handle("POST /g", http.StripPrefix("/g", g.Wrap(idem, http.TimeoutHandler(h, 0, ""))))
	mux.HandleFunc("POST /h", func(http.ResponseWriter, *http.Request) { // want "POST /h does not say"
		_ = idempotency.Idempotent(idempotency.Policy{})
		g.Wrap(idem, h)
	})

	inner := http.NewServeMux()
	mux.Handle("/v1/", http.StripPrefix("/v1", inner))
	mux.Handle("/v2/", inner)

	register := mux.HandleFunc // want "HandleFunc registers routes and is used as a value"
	register("POST /i", serve)
}

type server struct{ *http.ServeMux }

func (s server) routes() {
	s.HandleFunc("POST /embedded", serve) // want "POST /embedded does not say"
}

// registry is what an application writes to take either router.
type registry interface {
	HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request))
}

func through(r registry) {
	r.HandleFunc("POST /interface", serve) // want "POST /interface does not say"
}

func declaredMux(g *idempotency.Guard, h http.Handler, path string, stored struct{ d idempotency.Declaration }) { // want declaredMux:"registers"
	mux := g.NewMux()
	mux.Handle("POST /declared", idempotency.Idempotent(idempotency.Policy{}), h)
	mux.HandleFunc("POST /refused", idempotency.NonIdempotent("charges the card a second time"), serve)
	mux.Handle("POST /zero", idempotency.Declaration{}, h) // want "POST /zero has a declaration that cannot be read here"
	mux.Handle("POST /stored", stored.d, h)                // want "POST /stored has a declaration that cannot be read here"
	mux.HandleSafe("GET /x", h)
	mux.HandleSafe("POST /x", h) // want "HandleSafe panics"
	mux.HandleSafe("/x", h)      // want "HandleSafe panics"
	go func() {
		mux.Handle(path+"/x", idempotency.Idempotent(idempotency.Policy{}), h)
	}()
}

func useDeclared(g *idempotency.Guard, h http.Handler, s struct{ path string }) {
	declaredMux(g, h, "POST /given", struct{ d idempotency.Declaration }{})
	declaredMux(g, h, s.path, struct{ d idempotency.Declaration }{}) // want "is not constant"
}
