// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package ginshop

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

const notWritten = -1

// writer is a gin.ResponseWriter over the writer of the guard, and as lazy as that of gin: a status is sent with the first byte.
type writer struct {
	http.ResponseWriter
	status, size int
}

var _ gin.ResponseWriter = (*writer)(nil)

// WriteHeader notes the status.
func (w *writer) WriteHeader(status int) {
	if status > 0 && !w.Written() {
		w.status = status
	}
}

// WriteHeaderNow sends the status.
func (w *writer) WriteHeaderNow() {
	if !w.Written() {
		w.size = 0
		w.ResponseWriter.WriteHeader(w.status)
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.ResponseWriter.Write(p)
	w.size += n
	return n, err
}

func (w *writer) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	n, err := io.WriteString(w.ResponseWriter, s)
	w.size += n
	return n, err
}

func (w *writer) Status() int   { return w.status }
func (w *writer) Size() int     { return w.size }
func (w *writer) Written() bool { return w.size != notWritten }

// Flush sends what there is. The guard then keeps no answer, only that the request was executed.
func (w *writer) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.ResponseWriter).Flush() // As in net/http, there is nobody to tell.
}

// Hijack takes the connection over.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if !w.Written() {
		w.size = 0
	}
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// CloseNotify never tells anything: the guard lets the handler go on when the client leaves.
func (w *writer) CloseNotify() <-chan bool { return nil }

// Pusher is nil: the guard offers no server push.
func (w *writer) Pusher() http.Pusher { return nil }

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
