// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shop is an HTTP API of a small shop, whose orders are placed once however often a client sends them.
//
//	POST /orders       places an order; needs an Idempotency-Key
//	GET  /orders/{id}  reads an order of the caller
//	POST /quotes       a price, for ten minutes; refuses an Idempotency-Key
//
// Every request carries a token of its customer: Authorization: Bearer <token>.
package shop

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

// prices are what the shop sells, in cents.
func prices() map[string]int { return map[string]int{"tea": 450, "coffee": 890, "honey": 1200} }

const (
	// maxQuantity is how many of an item one order can have.
	maxQuantity = 1000
	// quoteValidity is how long a price is offered.
	quoteValidity = 10 * time.Minute
)

// Options are what New needs.
type Options struct {
	// Orders are where orders are kept.
	Orders *Orders
	// Guard makes requests safe to repeat. Its Caller is Customer.
	Guard *idempotency.Guard
	// Lease is how long a key stays taken after its replica died. Defaults to 30 s.
	Lease time.Duration
	// Tokens are the tokens of the customers, and who they are.
	Tokens map[string]string
	// Metrics count orders.
	Metrics *Metrics
	// Logger gets a record of every order, and of every fault.
	Logger *slog.Logger
}

type shop struct {
	Options
	customers map[[sha256.Size]byte]string
}

// New makes the handler of the API.
func New(o Options) http.Handler {
	s := &shop{Options: o, customers: make(map[[sha256.Size]byte]string)}
	for token, customer := range o.Tokens {
		s.customers[sha256.Sum256([]byte(token))] = customer
	}
	mux := o.Guard.NewMux()
	// Required: an order that is sent without a key could be placed twice. Not FailClosed: with the record out of order, the unique column still keeps an order
	// from being placed twice. A shop whose effect has no such column sets it.
	mux.HandleFunc("POST /orders", idempotency.Idempotent(idempotency.Policy{Required: true, TTL: o.Lease}), s.create)
	mux.HandleFunc("POST /quotes", idempotency.NonIdempotent("a price is offered for ten minutes, and a replayed one may be over"), s.quote)
	mux.HandleSafe("GET /orders/{id}", http.HandlerFunc(s.get))
	// The Guard asks who the caller is, so authentication is around it.
	return s.authenticated(mux)
}

type customerKey struct{}

// Customer is who sent a request, as the token says, for idempotency.Options.Caller.
func Customer(r *http.Request) string {
	customer, _ := r.Context().Value(customerKey{}).(string)
	return customer
}

func (s *shop) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		// By the hash, so that the time of the look-up tells nothing of the tokens.
		customer, ok := s.customers[sha256.Sum256([]byte(token))]
		if !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			problem(w, http.StatusUnauthorized, "send the token of a customer: Authorization: Bearer <token>")
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), customerKey{}, customer)))
	})
}

func (s *shop) create(w http.ResponseWriter, r *http.Request) {
	wanted, ok := decode(w, r)
	if !ok {
		return
	}
	operation, ok := idempotency.OperationKey(r.Context())
	if !ok { // The route requires a key, so it is not wired as New does it.
		s.fault(w, r, errors.New("an order without an operation"))
		return
	}
	order, created, err := s.Orders.Create(r.Context(), operation, Customer(r), wanted)
	switch {
	case err != nil: // Not kept: a repeat with the same key tries again.
		s.fault(w, r, err)
		return
	case !created && (order.Item != wanted.Item || order.Quantity != wanted.Quantity):
		// The record of the key is gone, so the Guard could not see that it was used for something else.
		problem(w, http.StatusUnprocessableEntity, "the Idempotency-Key was used for another order: use a new key for a new order")
		return
	}
	// From here on a failure must not make a repeat execute again.
	idempotency.Committed(r.Context())
	s.Metrics.order(created)
	s.Logger.InfoContext(r.Context(), "order placed", "order", order.ID, "operation", operation.String(), "created", created)
	w.Header().Set("Location", "/orders/"+order.ID)
	reply(w, http.StatusCreated, order)
}

func (s *shop) get(w http.ResponseWriter, r *http.Request) {
	order, err := s.Orders.Get(r.Context(), Customer(r), r.PathValue("id"))
	switch {
	case errors.Is(err, ErrNoOrder):
		problem(w, http.StatusNotFound, err.Error())
	case err != nil:
		s.fault(w, r, err)
	default:
		reply(w, http.StatusOK, order)
	}
}

func (s *shop) quote(w http.ResponseWriter, r *http.Request) {
	wanted, ok := decode(w, r)
	if !ok {
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"item": wanted.Item, "quantity": wanted.Quantity, "cents": wanted.Quantity * prices()[wanted.Item],
		"validForSeconds": int(quoteValidity.Seconds()),
	})
}

// decode reads what is wanted, or answers 400.
func decode(w http.ResponseWriter, r *http.Request) (Order, bool) {
	var wanted struct {
		Item     string `json:"item"`
		Quantity int    `json:"quantity"`
	}
	const maxBody = 64 << 10
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wanted); err != nil {
		problem(w, http.StatusBadRequest, `send {"item": "tea", "quantity": 1}: `+err.Error())
		return Order{}, false
	}
	if _, sold := prices()[wanted.Item]; !sold || wanted.Quantity < 1 || wanted.Quantity > maxQuantity {
		problem(w, http.StatusBadRequest, "the shop sells 1 to 1000 of tea, coffee or honey")
		return Order{}, false
	}
	return Order{Item: wanted.Item, Quantity: wanted.Quantity}, true
}

// fault answers 500 for what is not the client's fault.
func (s *shop) fault(w http.ResponseWriter, r *http.Request, err error) {
	s.Logger.ErrorContext(r.Context(), "request failed", "route", r.Pattern, "error", err)
	problem(w, http.StatusInternalServerError, "the shop is out of order: try again later, an order with the same Idempotency-Key")
}

func problem(w http.ResponseWriter, status int, detail string) {
	write(w, "application/problem+json", status, map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail})
}

func reply(w http.ResponseWriter, status int, body any) { write(w, "application/json", status, body) }

func write(w http.ResponseWriter, mediaType string, status int, body any) {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // The client may be gone.
}
