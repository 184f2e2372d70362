// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package carriers

import (
	"net/http"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

type server struct {
	guard  *idempotency.Guard
	orders http.Handler
}

var declaration = idempotency.Idempotent(idempotency.Policy{Retention: 48 * time.Hour, Required: true, FailClosed: true}) // want declaration:"brings idempotent"

func (s *server) create() http.Handler { return s.guard.Wrap(declaration, s.orders) } // want create:"brings idempotent"

func (s *server) installed(w http.ResponseWriter, r *http.Request) { // want installed:"installs idempotent"
	s.guard.Wrap(declaration, s.orders).ServeHTTP(w, r)
}

func (s *server) bare(http.ResponseWriter, *http.Request) {}

func (s *server) routes(mux *http.ServeMux) {
	mux.Handle("POST /a", s.create())
	mux.HandleFunc("POST /b", s.installed)
	mux.HandleFunc("POST /c", s.bare) // want "POST /c does not say"
	mux.Handle("POST /d", s.orders)   // want "POST /d does not say"
	h := s.create()
	mux.Handle("POST /e", h)
	other := s.create()
	other = s.orders
	mux.Handle("POST /f", other) // want "POST /f does not say"
	mux.Handle("/", sub())
}

func sub() http.Handler { // want sub:"brings router"
	mux := http.NewServeMux()
	return mux
}
