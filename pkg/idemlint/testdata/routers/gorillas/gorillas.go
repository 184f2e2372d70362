// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package gorillas

import (
	"net/http"

	"github.com/gorilla/mux"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

func serve(http.ResponseWriter, *http.Request) {}

func Routes(g *idempotency.Guard, r *mux.Router, verb string) {
	h := g.Wrap(idempotency.Idempotent(idempotency.Policy{}), http.HandlerFunc(serve))
	r.Handle("/orders", h).Methods("POST")
	r.HandleFunc("/a", serve).Methods("POST")                 // want "POST /a does not say"
	r.HandleFunc("/b", serve).Name("b").Methods("GET", "PUT") // want "GET,PUT /b does not say"
	r.HandleFunc("/c", serve).Methods("GET")
	r.HandleFunc("/d", serve)                       // want "ANY /d does not say"
	r.HandleFunc("/e", serve).Methods(verb, "x")    // want "is not constant"
	r.Methods("POST").Path("/f").HandlerFunc(serve) // want "POST /f does not say"
	r.Path("/g").Handler(h).Methods("PATCH")
	r.PathPrefix("/h").Handler(mux.NewRouter())
}
