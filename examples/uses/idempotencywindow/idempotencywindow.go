// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotencywindow

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Answer is what was answered to a key.
type Answer struct {
	// Request is the digest of the body that was answered.
	Request     string
	Status      int
	ContentType string
	Body        []byte
}

// Answers is where they are kept, for a day or so. All replicas see it.
type Answers interface {
	// Find returns the answer of a key; false if there is none.
	Find(ctx context.Context, key string) (Answer, bool, error)
	// StoreFirst keeps the answer if the key has none, and returns the one that is kept.
	StoreFirst(ctx context.Context, key string, a Answer) (Answer, error)
}

// Action executes a request, once. What it returns is stored if its status is 2xx. ctx ends with the lock, and not when the client leaves: work
// is not cut off half-way.
type Action func(ctx context.Context, caller string, body []byte) (Answer, error)

// Options are what a Window can be told. The zero value, or nil, is ready to use.
type Options struct {
	// TTL is how long a request that died keeps its repeats from executing. It must be longer than the action takes. Defaults to 30 s.
	TTL time.Duration
	// Wait is how long a repeat waits for the first request. Defaults to 5 s.
	Wait time.Duration
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// Window is a handler that executes the requests of one key once.
type Window struct {
	locks   *lock.Client
	answers Answers
	caller  func(*http.Request) string
	action  Action
	options Options
}

// New makes a window around an action. caller names the authenticated caller of a request.
func New(locks *lock.Client, answers Answers, caller func(*http.Request) string, action Action, options *Options) *Window {
	o := Options{}
	if options != nil {
		o = *options
	}
	if o.TTL == 0 {
		o.TTL = 30 * time.Second
	}
	if o.Wait == 0 {
		o.Wait = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Window{locks: locks, answers: answers, caller: caller, action: action, options: o}
}

const maxBody = 1 << 20

// ServeHTTP answers a request: see the package's documentation.
func (w *Window) ServeHTTP(out http.ResponseWriter, req *http.Request) {
	caller, clientKey := w.caller(req), req.Header.Get("Idempotency-Key")
	switch {
	case caller == "":
		http.Error(out, "who is calling?", http.StatusUnauthorized)
		return
	case clientKey == "":
		http.Error(out, "this request needs an Idempotency-Key header", http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(out, req.Body, maxBody))
	if err != nil {
		http.Error(out, "the body could not be read, or is too long", http.StatusBadRequest)
		return
	}
	key, request := digest(caller, req.Method, req.URL.Path, clientKey), digest(string(body))
	a, replayed, err := w.answer(req.Context(), key, request, func(ctx context.Context) (Answer, error) {
		return w.action(ctx, caller, body)
	})
	// The lock is released here, so a client that reads slowly does not hold it.
	var held *lock.HeldError
	switch {
	case err == nil && a.Request != request:
		http.Error(out, "this Idempotency-Key was used for another request", http.StatusUnprocessableEntity)
	case err == nil:
		out.Header().Set("Content-Type", a.ContentType)
		if replayed {
			out.Header().Set("X-Idempotent-Replay", "true")
		}
		out.WriteHeader(a.Status)
		_, _ = out.Write(a.Body) // A client that has gone repeats the request, and gets it then.
	case errors.As(err, &held):
		out.Header().Set("Retry-After", strconv.Itoa(max(1, int(held.Remaining.Round(time.Second)/time.Second))))
		http.Error(out, "a request with this Idempotency-Key is being executed", http.StatusConflict)
	case req.Context().Err() != nil:
		w.options.Logger.InfoContext(req.Context(), "client left before its request was executed", "caller", caller)
	default:
		w.options.Logger.ErrorContext(req.Context(), "request failed", "caller", caller, "error", err)
		out.Header().Set("Retry-After", "5")
		http.Error(out, "the request could not be executed; repeat it with the same Idempotency-Key", http.StatusServiceUnavailable)
	}
}

// answer executes unless there is an answer, and reports whether it is a stored one. A *lock.HeldError says that the first request is still
// being executed.
func (w *Window) answer(ctx context.Context, key, request string, execute func(context.Context) (Answer, error)) (a Answer, replayed bool, err error) {
	if a, found, err := w.answers.Find(ctx, key); err != nil || found {
		return a, found, err
	}
	h, err := w.locks.TryAcquire(ctx, lock.Key("idempotency", key), w.options.TTL, w.options.Wait)
	if errors.Is(err, lock.ErrHeld) {
		a, found, findErr := w.answers.Find(ctx, key)
		if findErr != nil || found {
			return a, found, findErr
		}
	}
	if err != nil {
		return Answer{}, false, err
	}
	// Also when the action panics. A fault while releasing is logged by the library, and does not undo the work.
	defer h.Release(ctx)
	// From here on the client may leave: what was begun is brought to its end, or to the end of the lock.
	work := h.Context()
	if a, found, err := w.answers.Find(work, key); err != nil || found {
		return a, found, err
	}
	a, err = execute(work)
	if err != nil {
		return Answer{}, false, fmt.Errorf("execute: %w", err)
	}
	a.Request = request
	if a.Status < 200 || a.Status > 299 {
		return a, false, nil
	}
	// Not under the lock's context: the effect is there, so its answer must be, even when the lock has just ended.
	kept, err := w.answers.StoreFirst(context.WithoutCancel(ctx), key, a)
	if err != nil {
		return Answer{}, false, fmt.Errorf("store the answer: %w", err)
	}
	return kept, false, nil
}

// digest is over parts with their lengths, so that different parts never make the same digest.
func digest(parts ...string) string {
	var all bytes.Buffer
	for _, part := range parts {
		fmt.Fprintf(&all, "%d:%s", len(part), part)
	}
	sum := sha256.Sum256(all.Bytes())
	return hex.EncodeToString(sum[:])
}
