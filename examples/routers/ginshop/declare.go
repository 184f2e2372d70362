// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ginshop serves the shop with gin.
package ginshop

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

// Declare is a middleware that treats keys as declared, for one route, in front of its handlers. It panics if the declaration is not valid.
//
// The handlers behind it write to the guard and read the request that the guard gives them; when the guard answers itself, they do not run.
func Declare(g *idempotency.Guard, d idempotency.Declaration) gin.HandlerFunc {
	guarded := g.Wrap(d, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(callKey{}).(*call).run(w, r)
	}))
	return func(c *gin.Context) {
		call := &call{context: c}
		r := c.Request.WithContext(context.WithValue(c.Request.Context(), callKey{}, call))
		r.Pattern = c.FullPath() // With the prefixes of all groups.
		guarded.ServeHTTP(c.Writer, r)
		if c.Request.MultipartForm == nil {
			c.Request.MultipartForm = r.MultipartForm // The server removes its files.
		}
		if !call.ran {
			c.Abort() // Answered by the guard. Without this gin would call the handlers.
		}
	}
}

type callKey struct{}

// call is one request on its way through the guard.
type call struct {
	context *gin.Context
	ran     bool
}

// run calls the handlers behind Declare, with the writer and the request of the guard.
func (call *call) run(w http.ResponseWriter, r *http.Request) {
	c, outerWriter, outerRequest := call.context, call.context.Writer, call.context.Request
	call.ran = true
	// Also after a panic: gin.Recovery answers on the outer writer.
	defer func() { c.Writer, c.Request = outerWriter, outerRequest }()
	c.Request = r
	if w == http.ResponseWriter(outerWriter) { // A request without a key.
		c.Next()
		return
	}
	inner := &writer{ResponseWriter: w, status: http.StatusOK, size: notWritten}
	c.Writer = inner
	c.Next()
	if !inner.Written() && len(c.Errors) > 0 && inner.status < http.StatusBadRequest {
		// A middleware outside turns the errors into an answer. Until then it is none that may be kept.
		inner.status = http.StatusInternalServerError
	}
	inner.WriteHeaderNow()
}
