// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fixes

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

var h http.Handler

func serve(http.ResponseWriter, *http.Request) {}

type api struct{ guard *idempotency.Guard }

func (a *api) routes(mux *http.ServeMux, r chi.Router) {
	mux.Handle("POST /a", h)         // want "POST /a does not say"
	mux.HandleFunc("POST /b", serve) // want "POST /b does not say"
	mux.HandleFunc("/c", serve)      // want "ANY /c does not say"
	r.Post("/d", serve)              // want "POST /d does not say"
}

func noGuard(mux *http.ServeMux) {
	mux.Handle("POST /e", h) // want "POST /e does not say"
}
