// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package echos

import (
	"github.com/labstack/echo/v4"

	"example.com/routers/declare"
	"github.com/lockstead/lockstead/pkg/idempotency"
)

func serve(echo.Context) error { return nil }

func Routes(g *idempotency.Guard, e *echo.Echo) {
	declared := declare.Echo4(g, idempotency.Idempotent(idempotency.Policy{}))
	e.POST("/orders", serve, declared)
	e.POST("/a", serve)  // want "POST /a does not say"
	e.PUT("/a", serve)   // want "PUT /a does not say"
	e.PATCH("/a", serve) // want "PATCH /a does not say"
	e.GET("/a", serve)
	e.Any("/b", serve)                    // want "ANY /b does not say"
	e.Add("POST", "/c", serve)            // want "POST /c does not say"
	e.Match([]string{"PUT"}, "/d", serve) // want "PUT /d does not say"
	v1 := e.Group("/v1")
	v1.POST("/e", serve) // want "POST /v1/e does not say"
	v1.POST("/f", serve, declared)
}
