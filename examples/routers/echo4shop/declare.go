// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package echo4shop serves the shop with echo v4.
package echo4shop

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

// Declare is a middleware that treats keys as declared, for one route. It panics if the declaration is not valid.
//
// echo.WrapMiddleware would not do: the answer to an error that a handler returns is written outside of it, so that the guard would see, keep and replay
// an empty 200.
func Declare(g *idempotency.Guard, d idempotency.Declaration) echo.MiddlewareFunc {
	guarded := g.Wrap(d, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(callKey{}).(*call).run(w, r)
	}))
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			call := &call{context: c, next: next}
			r := c.Request().WithContext(context.WithValue(c.Request().Context(), callKey{}, call))
			r.Pattern = c.Path() // With the prefixes of all groups.
			guarded.ServeHTTP(c.Response(), r)
			if c.Request().MultipartForm == nil {
				c.Request().MultipartForm = r.MultipartForm // The server removes its files.
			}
			return call.err
		}
	}
}

type callKey struct{}

// call is one request on its way through the guard.
type call struct {
	context echo.Context
	next    echo.HandlerFunc
	err     error
}

// run calls the handler with the writer and the request of the guard.
func (call *call) run(w http.ResponseWriter, r *http.Request) {
	c, outerResponse, outerRequest := call.context, call.context.Response(), call.context.Request()
	// Also after a panic: the answer to it goes to the outer writer.
	defer func() { c.SetResponse(outerResponse); c.SetRequest(outerRequest) }()
	c.SetRequest(r)
	if w == http.ResponseWriter(outerResponse) { // A request without a key.
		call.err = call.next(c)
		return
	}
	c.SetResponse(echo.NewResponse(w, c.Echo()))
	if call.err = call.next(c); call.err != nil {
		// The answer passes the guard like any other. Middlewares outside get the error too, and see that it was answered.
		c.Error(call.err)
	}
}
