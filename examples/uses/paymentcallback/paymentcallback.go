// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package paymentcallback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Event is what the provider tells.
type Event struct {
	// ID is new for each event and the same for each repeat of it.
	ID string `json:"id"`
	// Payment is the provider's reference of the payment.
	Payment string `json:"payment"`
	// Kind is, for example, "paid" or "refunded".
	Kind string `json:"kind"`
}

// Inbox is the table of the events that were dealt with. All replicas see it.
type Inbox interface {
	Has(ctx context.Context, id string) (bool, error)
	// Add records an event; it is no error if it is there.
	Add(ctx context.Context, id string) error
}

// Orders applies an event to the order that was paid. A repeat of an event that was applied and not recorded must do no harm.
type Orders interface {
	Apply(ctx context.Context, e Event) error
}

// Options are what a Receiver can be told. The zero value, or nil, is ready to use.
type Options struct {
	// TTL is how long a replica that died keeps other events of the payment waiting. Defaults to 30 s.
	TTL time.Duration
	// Wait is how long an event waits for another of the same payment. It must be shorter than the provider's time-out. Defaults to 5 s.
	Wait time.Duration
}

// Receiver deals with events. It is safe for concurrent use.
type Receiver struct {
	locks   *lock.Client
	inbox   Inbox
	orders  Orders
	options Options
}

// New makes a receiver.
func New(locks *lock.Client, inbox Inbox, orders Orders, options *Options) *Receiver {
	o := Options{}
	if options != nil {
		o = *options
	}
	if o.TTL == 0 {
		o.TTL = 30 * time.Second
	}
	if o.Wait == 0 {
		o.Wait = 5 * time.Second
	}
	return &Receiver{locks: locks, inbox: inbox, orders: orders, options: o}
}

// Receive deals with an event once. After an error the provider should send it again.
func (r *Receiver) Receive(ctx context.Context, e Event) error {
	if done, err := r.inbox.Has(ctx, e.ID); err != nil || done {
		return err
	}
	return r.locks.Do(ctx, lock.Key("payment", e.Payment), func(ctx context.Context, _ *lock.Handle) error {
		// A repeat may have been dealt with while this one waited.
		if done, err := r.inbox.Has(ctx, e.ID); err != nil || done {
			return err
		}
		if err := r.orders.Apply(ctx, e); err != nil {
			return fmt.Errorf("apply event %s: %w", e.ID, err)
		}
		// Also when the provider has hung up meanwhile: the event was applied.
		if err := r.inbox.Add(context.WithoutCancel(ctx), e.ID); err != nil {
			return fmt.Errorf("record event %s: %w", e.ID, err)
		}
		return nil
	}, &lock.DoOptions{TTL: r.options.TTL, Wait: r.options.Wait})
}

// Handler takes the calls of the provider, whose signature a handler before it has verified: 204 when the event is dealt with, 503 when it is to be
// sent again, 400 when it is no event.
func Handler(r *Receiver, log *slog.Logger) http.Handler {
	const maxBody = 1 << 16
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var e Event
		if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxBody)).Decode(&e); err != nil || e.ID == "" || e.Payment == "" {
			http.Error(w, "an event needs id and payment", http.StatusBadRequest)
			return
		}
		err := r.Receive(req.Context(), e)
		switch {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
			return
		case errors.Is(err, lock.ErrHeld):
			log.InfoContext(req.Context(), "another event of the payment is being dealt with; the provider sends this one again", "event", e.ID, "payment", e.Payment)
		default:
			log.ErrorContext(req.Context(), "event not dealt with; the provider sends it again", "event", e.ID, "payment", e.Payment, "error", err)
		}
		w.Header().Set("Retry-After", "5")
		http.Error(w, "send the event again", http.StatusServiceUnavailable)
	})
}
