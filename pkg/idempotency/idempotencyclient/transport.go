// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package idempotencyclient is the other end of package idempotency: an http.RoundTripper that gives each request that can change something an
// Idempotency-Key, and sends it again with the same key when its answer was lost.
//
//	client := &http.Client{Transport: transport} // transport, err := idempotencyclient.New(nil, nil)
//
// The key is made once, outside of the retries. It stands for one operation: an application that retries by itself, over a restart for example, keeps its key and
// gives it with WithKey. Such a key is bound to the body: another body with it is refused before anything is sent.
package idempotencyclient

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// Options are what New can be told. The zero value, or nil, is ready to use.
type Options struct {
	// Header is the name of the header. Defaults to Idempotency-Key.
	Header string
	// MaxAttempts is how often a request is sent at most. Defaults to 4.
	MaxAttempts int
	// Pause is before the second attempt; it doubles with every further one. Retry-After of the server wins. Defaults to 200 ms.
	Pause time.Duration
	// MaxPause is the longest pause. An answer whose Retry-After is longer is returned as it is. Defaults to 30 s.
	MaxPause time.Duration
	// MaxBody is how many bytes of a body without http.Request.GetBody are read into memory, so that it can be sent again; one that is larger is refused with
	// a *BodyError. Defaults to 1 MiB.
	MaxBody int64
	// Clock is for tests. Defaults to clock.Boot.
	Clock clock.Clock
}

const (
	defaultMaxAttempts = 4
	defaultPause       = 200 * time.Millisecond
	defaultMaxPause    = 30 * time.Second
	defaultMaxBody     = 1 << 20
)

// Transport is an http.RoundTripper. It is safe for concurrent use.
type Transport struct {
	base    http.RoundTripper
	options Options
}

// New makes a Transport over base, or over http.DefaultTransport if it is nil. The error is an *idempotency.InvalidError.
func New(base http.RoundTripper, options *Options) (*Transport, error) {
	var o Options
	if options != nil {
		o = *options
	}
	switch {
	case o.MaxAttempts < 0:
		return nil, &idempotency.InvalidError{Argument: "MaxAttempts", Problem: "is negative"}
	case o.Pause < 0:
		return nil, &idempotency.InvalidError{Argument: "Pause", Problem: "is negative"}
	case o.MaxPause < 0:
		return nil, &idempotency.InvalidError{Argument: "MaxPause", Problem: "is negative"}
	case o.MaxBody < 0:
		return nil, &idempotency.InvalidError{Argument: "MaxBody", Problem: "is negative"}
	}
	if base == nil {
		base = http.DefaultTransport
	}
	if o.Header == "" {
		o.Header = "Idempotency-Key"
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = defaultMaxAttempts
	}
	if o.Pause == 0 {
		o.Pause = defaultPause
	}
	if o.MaxPause == 0 {
		o.MaxPause = defaultMaxPause
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Clock == nil {
		o.Clock = clock.Boot()
	}
	return &Transport{base: base, options: o}, nil
}

// ErrKeyReused is returned when a key of WithKey was used for another request.
var ErrKeyReused = errors.New("idempotency key was used for another request: take a new key for a new operation")

// BodyError says that a body cannot be sent again. Nothing was sent.
type BodyError struct {
	// Max is how many bytes are read into memory.
	Max int64
}

func (e *BodyError) Error() string {
	return fmt.Sprintf("idempotencyclient: the body has more than %d bytes and no GetBody, so it could not be sent again: set http.Request.GetBody, or raise MaxBody", e.Max)
}

type operationKey struct{}

// operation is a key of the application, and what it was used for.
type operation struct {
	key string

	mu   sync.Mutex
	used bool
	sum  [sha256.Size]byte
}

// WithKey gives the requests of ctx a key of the application. All of them must be the same request: one with another method, URL or body fails with ErrKeyReused. A
// key that idempotency.ParseKey refuses fails with its *idempotency.KeyError. Nothing is sent then.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, operationKey{}, &operation{key: key})
}

// bind ties the operation to a request.
func (o *operation) bind(sum [sha256.Size]byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used && o.sum != sum {
		return ErrKeyReused
	}
	o.used, o.sum = true, sum
	return nil
}

// RoundTrip implements http.RoundTripper. Requests with GET, HEAD, OPTIONS or TRACE, and those that have the header already, go to the base as they are.
//
// It sends a request again, with the same key and body, when the connection failed, and after 408, 425, 429, 500, 502, 503, 504 and a 409 that has
// Retry-After. The last answer, or the last error, is returned.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !mutating(r.Method) || r.Header.Get(t.options.Header) != "" {
		return t.base.RoundTrip(r)
	}
	body, sum, err := t.body(r)
	if err != nil {
		return nil, err
	}
	key := rand.Text()
	if o, ok := r.Context().Value(operationKey{}).(*operation); ok {
		if _, err := idempotency.ParseKey([]string{quote(o.key)}); err != nil {
			return nil, err
		}
		if err := o.bind(sum); err != nil {
			return nil, err
		}
		key = o.key
	}
	pause := t.options.Pause
	for attempt := 1; ; attempt++ {
		again := r.Clone(r.Context())
		again.Header.Set(t.options.Header, quote(key))
		if again.Body, err = body(); err != nil {
			return nil, fmt.Errorf("idempotencyclient: the body cannot be had again: %w", err)
		}
		again.GetBody = body
		resp, err := t.base.RoundTrip(again)
		wait, repeat := t.judge(resp, err, pause)
		if !repeat || attempt == t.options.MaxAttempts || r.Context().Err() != nil {
			return resp, err
		}
		if resp != nil {
			drain(resp)
		}
		if err := t.sleep(r.Context(), wait); err != nil {
			return nil, err
		}
		pause = min(2*pause, t.options.MaxPause)
	}
}

// judge decides whether a request is sent again, and when.
func (t *Transport) judge(resp *http.Response, err error, pause time.Duration) (wait time.Duration, repeat bool) {
	if err != nil {
		return pause, true
	}
	after, told := retryAfter(resp.Header.Get("Retry-After"))
	switch resp.StatusCode {
	case http.StatusConflict:
		repeat = told // Without, it is an answer of the application, or one that was not kept.
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		repeat = true
	}
	if told {
		pause = after
	}
	return pause, repeat && pause <= t.options.MaxPause
}

// retryAfter reads a number of seconds. A date is not taken, since the clocks may differ.
func retryAfter(value string) (time.Duration, bool) {
	seconds, err := strconv.ParseUint(value, 10, 31)
	return time.Duration(seconds) * time.Second, err == nil
}

func (t *Transport) sleep(ctx context.Context, d time.Duration) error {
	timer := t.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drain lets the connection be used again.
func drain(resp *http.Response) {
	const most = 64 << 10
	_, _ = io.CopyN(io.Discard, resp.Body, most)
	_ = resp.Body.Close()
}

func mutating(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "":
		return false
	}
	return true
}
