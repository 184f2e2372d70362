// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

// The fingerprint of a route replaces the body, and only the body.
func TestFingerprintOfTheRoute(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{Fingerprint: func(_ *http.Request, body []byte) ([]byte, error) {
		amount, _, found := strings.Cut(string(body), " sent at ")
		if !found {
			return nil, errors.New("no time")
		}
		return []byte(amount), nil
	}}, counting(&calls))
	r := order()
	r.body = "5 sent at 10:00"
	r.send(t, server)
	r.body = "5 sent at 10:01"
	if a := r.send(t, server); !a.replayed() {
		t.Errorf("the same amount got %+v", a)
	}
	r.body = "6 sent at 10:01"
	r.send(t, server).want(t, http.StatusUnprocessableEntity, idempotency.CodeMismatch)
	r.body, r.path = "5 sent at 10:00", "/orders/2"
	r.send(t, server).want(t, http.StatusUnprocessableEntity, idempotency.CodeMismatch)
	r.body, r.key = "5", "k2"
	r.send(t, server).want(t, http.StatusBadRequest, idempotency.CodeBodyUnreadable)
	if calls.Load() != 1 {
		t.Errorf("%d calls", calls.Load())
	}
}

// The handler's context ends after MaxExecution although the lock is renewed and the client waits; the key is free for the next.
func TestMaxExecutionEndsAHandlerThatHangs(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{MaxExecution: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			<-r.Context().Done()
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	if a := order().send(t, server); a.status != http.StatusGatewayTimeout {
		t.Errorf("the handler that hung answered %+v", a)
	}
	if a := order().send(t, server); a.status != http.StatusCreated || a.replayed() {
		t.Errorf("the next got %+v", a)
	}
}

// A key on a request that changes nothing is not looked at, whatever the route.
func TestGetThroughTheMux(t *testing.T) {
	f := newFixture(t)
	mux := f.guard(f.client(), nil).NewMux()
	answer := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method+" "+r.Pattern) }
	mux.HandleSafe("GET /orders/{id}", http.HandlerFunc(answer))
	mux.HandleFunc("/files/{id}", idempotency.Idempotent(idempotency.Policy{Required: true}), answer)
	mux.HandleFunc("/tokens", idempotency.NonIdempotent("a replayed token may have been rotated away"), answer)
	server := f.serve(mux)
	for path, want := range map[string]string{"/orders/1": "GET GET /orders/{id}", "/files/1": "GET /files/{id}", "/tokens": "GET /tokens"} {
		req, err := order().build(t.Context(), server)
		if err != nil {
			t.Fatal(err)
		}
		req.Method, req.Body, req.ContentLength, req.URL.Path = http.MethodGet, http.NoBody, 0, path
		for range 2 {
			resp, err := server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || string(body) != want || resp.Header.Get("X-Idempotent-Replay") != "" {
				t.Errorf("GET %s: %d %q, %v, want %q", path, resp.StatusCode, body, err, want)
			}
		}
	}
	if f.store.calls() != 0 {
		t.Errorf("%d calls of the store", f.store.calls())
	}
}
