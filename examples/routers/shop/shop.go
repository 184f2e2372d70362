// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shop is what the other packages of this module serve, each with another router: orders, which may be repeated with the same key, refunds, which need
// one, and sessions, which must not be repeated.
package shop

import (
	"context"
	"errors"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

// ErrSoldOut says that there is nothing left to order.
var ErrSoldOut = errors.New("sold out")

// Shop is the business behind the routes. None of its methods can tell a repeat from a new request.
type Shop interface {
	// Order orders an item. It returns the id of the order, or ErrSoldOut.
	Order(ctx context.Context, account, item string) (id string, err error)
	// Refund pays an amount back, and returns the id of the refund.
	Refund(ctx context.Context, account, amount string) (id string, err error)
	// Login makes a token.
	Login(ctx context.Context) (token string, err error)
}

// What a repeat of each route does is said once, for all routers.
var (
	// Orders are executed once for a key.
	Orders = idempotency.Idempotent(idempotency.Policy{})
	// Refunds move money: they need a key, do not run while lock or store are down, and do not queue.
	Refunds = idempotency.Idempotent(idempotency.Policy{Required: true, FailClosed: true, NoWait: true})
	// Sessions take no key.
	Sessions = idempotency.NonIdempotent("a replayed token may have been rotated away")
)
