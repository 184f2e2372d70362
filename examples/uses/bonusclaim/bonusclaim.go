// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package bonusclaim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/lock"
)

// Claims is the table of the claims that were paid, unique by user and offer. All replicas see it.
type Claims interface {
	Has(ctx context.Context, user, offer string) (bool, error)
	// Insert returns ErrClaimed if there is one already.
	Insert(ctx context.Context, user, offer string) error
}

// Payer pays a bonus out. It cannot tell a repeat from a second bonus.
type Payer interface {
	Pay(ctx context.Context, user, offer string) error
}

var (
	// ErrClaimed says that the user has had this bonus.
	ErrClaimed = errors.New("the bonus of this offer was claimed before")
	// ErrInProgress says that another request is paying it out.
	ErrInProgress = errors.New("the bonus of this offer is being paid out")
)

// Desk takes claims. It is safe for concurrent use.
type Desk struct {
	locks  *lock.Client
	claims Claims
	payer  Payer
	ttl    time.Duration
}

// New makes a desk. ttl is how long a replica that died while it paid keeps the user from trying again; the lock is renewed while the payer
// works.
func New(locks *lock.Client, claims Claims, payer Payer, ttl time.Duration) *Desk {
	return &Desk{locks: locks, claims: claims, payer: payer, ttl: ttl}
}

// Claim pays the bonus. The error is ErrClaimed, ErrInProgress, or a fault.
func (d *Desk) Claim(ctx context.Context, user, offer string) error {
	err := d.locks.Do(ctx, lock.Key("bonus", user, offer), func(ctx context.Context, _ *lock.Handle) error {
		claimed, err := d.claims.Has(ctx, user, offer)
		if err != nil {
			return fmt.Errorf("look up the claim: %w", err)
		}
		if claimed {
			return ErrClaimed
		}
		if err := d.payer.Pay(ctx, user, offer); err != nil {
			return fmt.Errorf("pay the bonus: %w", err)
		}
		// Whatever has become of the request and of the lock: what was paid is recorded.
		if err := d.claims.Insert(context.WithoutCancel(ctx), user, offer); err != nil {
			return fmt.Errorf("record the claim: %w", err)
		}
		return nil
	}, &lock.DoOptions{TTL: d.ttl})
	if errors.Is(err, lock.ErrHeld) {
		return ErrInProgress
	}
	return err
}

// Handler answers POST /offers/{offer}/claim: 204, 409, or 503. caller names the authenticated user. The route declares to guard that it takes no
// Idempotency-Key, since user and offer are the key already.
func Handler(d *Desk, guard *idempotency.Guard, caller func(*http.Request) string, log *slog.Logger) http.Handler {
	mux := guard.NewMux()
	once := idempotency.NonIdempotent("user and offer are the key, and a repeat is told that the bonus was paid")
	mux.HandleFunc("POST /offers/{offer}/claim", once, func(w http.ResponseWriter, req *http.Request) {
		user, offer := caller(req), req.PathValue("offer")
		if user == "" {
			http.Error(w, "who is claiming?", http.StatusUnauthorized)
			return
		}
		err := d.Claim(req.Context(), user, offer)
		switch {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case errors.Is(err, ErrClaimed):
			http.Error(w, ErrClaimed.Error(), http.StatusConflict)
		case errors.Is(err, ErrInProgress):
			http.Error(w, ErrInProgress.Error(), http.StatusConflict)
		case req.Context().Err() != nil:
			log.InfoContext(req.Context(), "client left during a claim", "user", user, "offer", offer, "error", err)
		default:
			log.ErrorContext(req.Context(), "claim failed", "user", user, "offer", offer, "error", err)
			w.Header().Set("Retry-After", "5")
			http.Error(w, "the bonus could not be paid; try again", http.StatusServiceUnavailable)
		}
	})
	return mux
}
