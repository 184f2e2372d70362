// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore/recordproto"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
)

// The whole of it: requests, locks and records of one tenant on one server, whose share is used up.
func TestRequestsOverAFullShare(t *testing.T) {
	n := startTenancy(t, recordproto.Limits{MaxResponse: 1 << 10, Share: 2 * 1216})
	d, err := redislock.New(n.client, &redislock.Options{Access: binding.AccessFunctions})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	quiet := slog.New(slog.DiscardHandler)
	locks, err := lock.New(d, tenantPrefix, &lock.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locks.Close(context.Background()) }()
	guard, err := idempotency.New(n.store, locks, &idempotency.Options{Caller: func(*http.Request) string { return "ann" }, Logger: quiet, StoreTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	handler := func(w http.ResponseWriter, r *http.Request) {
		calls[r.URL.Path+r.Header.Get("Idempotency-Key")]++
		w.WriteHeader(http.StatusCreated)
	}
	mux := guard.NewMux()
	mux.HandleFunc("POST /open", idempotency.Idempotent(idempotency.Policy{}), handler)
	mux.HandleFunc("POST /closed", idempotency.Idempotent(idempotency.Policy{FailClosed: true}), handler)
	server := httptest.NewServer(mux)
	defer server.Close()
	send := func(path, key string) (status int, degraded string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", key)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("X-Idempotent-Degraded")
	}
	for _, step := range []struct {
		path, key        string
		status, executed int
		degraded         string
	}{
		{"/open", "a", 201, 1, ""},
		{"/closed", "b", 201, 1, ""},
		// From here on the share is used up.
		{"/open", "c", 201, 1, "store-full"},
		{"/open", "c", 201, 2, "store-full"},
		{"/closed", "d", 503, 0, "store-full"},
		// What was kept is replayed.
		{"/open", "a", 201, 1, ""},
		{"/closed", "b", 201, 1, ""},
	} {
		status, degraded := send(step.path, step.key)
		if status != step.status || degraded != step.degraded || calls[step.path+step.key] != step.executed {
			t.Errorf("%s with key %s: %d, degraded %q, executed %d times", step.path, step.key, status, degraded, calls[step.path+step.key])
		}
	}
	n.limit(t, recordproto.Limits{MaxResponse: 1 << 10, Share: 4 * 1216}, recordproto.Whole)
	if status, degraded := send("/closed", "d"); status != http.StatusCreated || degraded != "" {
		t.Errorf("with a larger share: %d, degraded %q", status, degraded)
	}
}
