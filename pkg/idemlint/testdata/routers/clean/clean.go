// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clean declares all of its routes.
package clean

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"example.com/routers/wrappers/lib"
	"github.com/lockstead/lockstead/pkg/idempotency"
)

const tokens = "/tokens"

func Routes(g *idempotency.Guard, mux *http.ServeMux, orders, token http.Handler) {
	mux.Handle("POST /orders", g.Wrap(idempotency.Idempotent(idempotency.Policy{Retention: 48 * time.Hour, Required: true}), orders))
	mux.Handle("POST "+tokens, g.Wrap(idempotency.NonIdempotent("a replayed token may have been rotated away"), token))
	lib.Declared(g, mux, "/accounts/{id}", lib.Refused, orders)
	r := chi.NewRouter()
	r.Route("/v1", func(r chi.Router) {
		r.Put("/orders/{id}", g.Wrap(idempotency.Idempotent(idempotency.Policy{FailClosed: true}), orders).ServeHTTP)
	})
	mux.Handle("/", r)
}
