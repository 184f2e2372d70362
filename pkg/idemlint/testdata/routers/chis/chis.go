// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package chis

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"example.com/routers/declare"
	"github.com/lockstead/lockstead/pkg/idempotency"
)

func serve(http.ResponseWriter, *http.Request) {}

func Routes(g *idempotency.Guard, method string) http.Handler { // want Routes:"brings router"
	r := chi.NewRouter()
	login := declare.Middleware(g, idempotency.NonIdempotent("issues a token pair"))
	r.With(declare.Middleware(g, idempotency.Idempotent(idempotency.Policy{}))).Post("/orders", serve)
	r.With(login).Post("/login", serve)
	r.Post("/a", serve)                             // want "POST /a does not say"
	r.Put("/a", serve)                              // want "PUT /a does not say"
	r.Patch("/a", serve)                            // want "PATCH /a does not say"
	r.Method("post", "/b", http.HandlerFunc(serve)) // want "POST /b does not say"
	r.MethodFunc(http.MethodPut, "/b", serve)       // want "PUT /b does not say"
	r.MethodFunc(http.MethodGet, "/b", serve)
	r.Handle("/c", http.HandlerFunc(serve)) // want "ANY /c does not say"
	r.HandleFunc("POST /d", serve)          // want "POST /d does not say"
	r.Get("/e", serve)
	r.Delete("/e", serve)
	r.Mount("/f", http.HandlerFunc(serve)) // want "ANY /f does not say"
	r.Mount("/g", sub(g))
	r.Mount("/g2", Handler())
	r.Route("/h", func(r chi.Router) {
		r.Post("/a", serve) // want "POST /h/a does not say"
		r.With(login).Post("/b", serve)
		r.Group(func(r chi.Router) {
			r.Use(login)
			r.Post("/c", serve) // want "POST /h/c does not say"
		})
	})
	declared := r.With(login)
	declared.Post("/i", serve) // want "POST /i does not say"
	for _, m := range []string{"GET", method} {
		r.MethodFunc(m, "/j", serve) // want "is not constant"
	}
	return r
}

func sub(g *idempotency.Guard) chi.Router { // want sub:"brings router"
	r := chi.NewRouter()
	r.Put("/x", g.Wrap(idempotency.Idempotent(idempotency.Policy{}), http.HandlerFunc(serve)).ServeHTTP)
	return r
}

func Handler() http.Handler { // want Handler:"brings router"
	r := chi.NewRouter()
	r.Get("/x", serve)
	return r
}
