// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package chishop

import (
	"errors"
	"io"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockstead/lockstead/examples/routers/shop"
	"github.com/lockstead/lockstead/pkg/idempotency"
)

// Handler serves the shop.
func Handler(g *idempotency.Guard, s shop.Shop) http.Handler {
	h := handlers{s}
	r := chi.NewRouter()
	r.Use(middleware.Recoverer) // Outside: a panic passes through the guard, which frees the key.
	r.Route("/v1", func(r chi.Router) {
		r.Get("/accounts/{account}/orders", h.list)
		r.With(Declare(g, shop.Orders)).Post("/accounts/{account}/orders", h.order)
		r.With(Declare(g, shop.Refunds)).Post("/accounts/{account}/refunds", h.refund)
		r.With(Declare(g, shop.Sessions)).Post("/sessions", h.login)
	})
	return r
}

type handlers struct{ shop shop.Shop }

func (handlers) list(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, "orders of "+chi.URLParam(r, "account"))
}

func (h handlers) order(w http.ResponseWriter, r *http.Request) {
	account := chi.URLParam(r, "account")
	item, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "the body ended early", http.StatusBadRequest)
		return
	}
	id, err := h.shop.Order(r.Context(), account, string(item))
	switch {
	case errors.Is(err, shop.ErrSoldOut):
		http.Error(w, err.Error(), http.StatusGone)
	case err != nil:
		http.Error(w, "the order was not taken", http.StatusInternalServerError)
	default:
		w.Header().Set("Location", "/v1/accounts/"+account+"/orders/"+id)
		answer(w, http.StatusCreated, "order "+id)
	}
}

func (h handlers) refund(w http.ResponseWriter, r *http.Request) {
	if _, err := h.shop.Refund(r.Context(), chi.URLParam(r, "account"), r.URL.Query().Get("amount")); err != nil {
		http.Error(w, "nothing was refunded", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h handlers) login(w http.ResponseWriter, r *http.Request) {
	token, err := h.shop.Login(r.Context())
	if err != nil {
		http.Error(w, "no session", http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusCreated, token)
}

func answer(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // The client is gone.
}
