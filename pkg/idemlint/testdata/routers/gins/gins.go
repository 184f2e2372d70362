// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package gins

import (
	"github.com/gin-gonic/gin"

	"example.com/routers/declare"
	"github.com/lockstead/lockstead/pkg/idempotency"
)

func serve(*gin.Context) {}

func Routes(g *idempotency.Guard, e *gin.Engine, routes gin.IRoutes, verbs []string) {
	declared := declare.Gin(g, idempotency.Idempotent(idempotency.Policy{}))
	e.POST("/orders", declared, serve)
	e.POST("/a", serve)  // want "POST /a does not say"
	e.PUT("/a", serve)   // want "PUT /a does not say"
	e.PATCH("/a", serve) // want "PATCH /a does not say"
	e.GET("/a", serve)
	e.Any("/b", serve)                           // want "ANY /b does not say"
	e.Handle("POST", "/c", serve)                // want "POST /c does not say"
	e.Match([]string{"GET", "PUT"}, "/d", serve) // want "GET,PUT /d does not say"
	e.Match([]string{"GET", "HEAD"}, "/d", serve)
	e.Match(verbs, "/e", serve) // want "is not constant"
	routes.POST("/f", serve)    // want "POST /f does not say"
	v1 := e.Group("/v1")
	v1.POST("/g", serve) // want "POST /v1/g does not say"
	v1.POST("/h", declared, serve)
	v2 := e.Group("/v2", declared)
	v2.POST("/i", serve) // want "POST /v2/i does not say"
	e.Use(declared)
	e.POST("/j", func(c *gin.Context) { declare.Gin(g, idempotency.NonIdempotent("sends a text message"))(c) })
}
