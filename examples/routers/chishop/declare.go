// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chishop serves the shop with chi.
package chishop

import (
	"net/http"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

// Declare is a middleware that treats keys as declared, for With in front of one route. It panics if the declaration is not valid.
//
// chi sets http.Request.Pattern to the pattern with the prefixes of all routers around it, so the route has its name.
func Declare(g *idempotency.Guard, d idempotency.Declaration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return g.Wrap(d, next) }
}
