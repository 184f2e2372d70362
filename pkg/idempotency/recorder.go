// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// mode is where the bytes of an answer go.
type mode int

const (
	// modeBuffering: into memory, until the record is stored.
	modeBuffering mode = iota
	// modeStreaming: to the client at once, since the handler flushed or wrote more than is kept.
	modeStreaming
	// modeHijacked: the handler has the connection.
	modeHijacked
)

// recorder is the http.ResponseWriter of a guarded handler. It does what that of net/http does, only that the answer leaves later. It has no ReadFrom, so that
// io.Copy cannot go past it.
type recorder struct {
	w     http.ResponseWriter
	limit int
	// mark adds to the header what is known just before it is sent.
	mark func(http.Header)

	mode   mode
	status int         // 0 until the handler has decided
	header http.Header // as it was then
	body   []byte
	length int64 // what the handler declared, -1 if nothing
	wrote  int64
}

func newRecorder(w http.ResponseWriter, limit int, mark func(http.Header)) *recorder {
	return &recorder{w: w, limit: limit, mark: mark, length: -1}
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.w.Header() }

// Unwrap is for deadlines by http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.w }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	switch {
	case r.mode != modeBuffering:
		r.w.WriteHeader(status) // net/http logs that this is too late.
		return
	case r.status != 0:
		return
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	case status < 200 && status != http.StatusSwitchingProtocols:
		r.w.WriteHeader(status) // Informational, so not the answer.
		return
	}
	r.status = status
	r.header = r.w.Header().Clone()
	if r.header == nil {
		r.header = http.Header{}
	}
	if declared := r.header.Get("Content-Length"); declared != "" {
		if n, err := strconv.ParseInt(declared, 10, 64); err == nil && n >= 0 {
			r.length = n
		}
	}
	if status == http.StatusSwitchingProtocols {
		_ = r.stream()
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) { return r.write(p, "") }

// WriteString implements io.StringWriter.
func (r *recorder) WriteString(s string) (int, error) { return r.write(nil, s) }

// write writes p or s, one of which is empty.
func (r *recorder) write(p []byte, s string) (int, error) {
	if r.mode == modeHijacked {
		return 0, http.ErrHijacked
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	n := len(p) + len(s)
	if r.mode == modeBuffering {
		switch {
		case n == 0:
			return 0, nil
		case !bodyAllowed(r.status):
			return 0, http.ErrBodyNotAllowed
		case r.length != -1 && r.wrote+int64(n) > r.length:
			return 0, http.ErrContentLength
		case len(r.body)+n <= r.limit:
			r.body = append(append(r.body, p...), s...)
			r.wrote += int64(n)
			return n, nil
		}
		if err := r.stream(); err != nil {
			return 0, err
		}
	}
	if s != "" {
		p = []byte(s)
	}
	return r.w.Write(p)
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// stream sends what there is, and everything from now on as it comes.
func (r *recorder) stream() error {
	r.mode = modeStreaming
	err := r.flush()
	r.body = nil
	return err
}

// flush sends the header as it was when the handler decided, and the body. The header that the handler has changed since is left for trailers.
func (r *recorder) flush() error {
	h := r.w.Header()
	now := maps.Clone(h)
	clear(h)
	maps.Copy(h, r.header)
	r.mark(h)
	r.w.WriteHeader(r.status)
	var err error
	if len(r.body) > 0 {
		_, err = r.w.Write(r.body)
	}
	clear(h)
	maps.Copy(h, now)
	return err
}

// finish is the end of the handler: one that wrote nothing has answered 200.
func (r *recorder) finish() {
	if r.status == 0 && r.mode == modeBuffering {
		r.WriteHeader(http.StatusOK)
	}
}

// send answers, if that was not done.
func (r *recorder) send() {
	if r.mode == modeBuffering {
		_ = r.flush() // The client is gone; the record is stored.
	}
}

// trailers are those that the handler announced or prefixed, with the values that they have now.
func (r *recorder) trailers() http.Header {
	var trailer http.Header
	set := func(name string, values []string) {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if name == "" || forbidden(name) || len(values) == 0 {
			return
		}
		if trailer == nil {
			trailer = http.Header{}
		}
		trailer[name] = values
	}
	now := r.w.Header()
	for _, list := range r.header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))
			set(name, now[name])
		}
	}
	for name, values := range now {
		if bare, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			set(bare, values)
		}
	}
	return trailer
}

// flushError sends what there is, as net/http would.
func (r *recorder) flushError() error {
	if r.mode == modeHijacked {
		return http.ErrHijacked
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.mode == modeBuffering {
		if err := r.stream(); err != nil {
			return err
		}
	}
	return http.NewResponseController(r.w).Flush()
}

func (r *recorder) hijack() (net.Conn, *bufio.ReadWriter, error) {
	if r.mode == modeBuffering && r.status != 0 {
		if err := r.stream(); err != nil {
			return nil, nil, err
		}
	}
	conn, buffer, err := http.NewResponseController(r.w).Hijack()
	if err == nil {
		r.mode = modeHijacked
	}
	return conn, buffer, err
}

// The writers that handlers get. Each has what the one below has, so that a handler that looks for an http.Flusher finds the truth.
type (
	flushing         struct{ *recorder }
	hijacking        struct{ *recorder }
	flushingHijacker struct {
		flushing
	}
)

func (f flushing) Flush()                                               { _ = f.flushError() }
func (f flushing) FlushError() error                                    { return f.flushError() }
func (h hijacking) Hijack() (net.Conn, *bufio.ReadWriter, error)        { return h.hijack() }
func (f flushingHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return f.hijack() }

func (r *recorder) writer() http.ResponseWriter {
	canFlush, canHijack := abilities(r.w)
	switch {
	case canFlush && canHijack:
		return flushingHijacker{flushing{r}}
	case canFlush:
		return flushing{r}
	case canHijack:
		return hijacking{r}
	default:
		return r
	}
}

// abilities looks where http.ResponseController would.
func abilities(w http.ResponseWriter) (canFlush, canHijack bool) {
	for {
		switch w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			canFlush = true
		}
		if _, ok := w.(http.Hijacker); ok {
			canHijack = true
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return canFlush, canHijack
		}
		w = inner.Unwrap()
	}
}
