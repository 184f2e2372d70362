// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package declare has the middlewares that the other packages of this module share.
package declare

import (
	"net/http"

	"github.com/gin-gonic/gin"
	echo4 "github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

func Middleware(g *idempotency.Guard, d idempotency.Declaration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return g.Wrap(d, next) }
}

func Gin(g *idempotency.Guard, d idempotency.Declaration) gin.HandlerFunc {
	return func(c *gin.Context) {
		g.Wrap(d, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.Next() })).ServeHTTP(c.Writer, c.Request)
	}
}

func Echo4(g *idempotency.Guard, d idempotency.Declaration) echo4.MiddlewareFunc {
	return echo4.WrapMiddleware(func(next http.Handler) http.Handler { return g.Wrap(d, next) })
}

func Echo5(g *idempotency.Guard, d idempotency.Declaration) echo5.MiddlewareFunc {
	return echo5.WrapMiddleware(func(next http.Handler) http.Handler { return g.Wrap(d, next) })
}

func Dropped(g *idempotency.Guard, d idempotency.Declaration) func(http.Handler) http.Handler { // want "Dropped drops its declaration"
	return func(next http.Handler) http.Handler { return next }
}
