// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/memstore"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

func Example() {
	// In an application with several replicas: a store in Redis or PostgreSQL, and the client of lockstead.Open.
	store, err := memstore.New(nil)
	if err != nil {
		panic(err)
	}
	client, err := lock.New(memlock.New(nil), "shop:", nil)
	if err != nil {
		panic(err)
	}
	guard, err := idempotency.New(store, client, &idempotency.Options{
		Caller: func(r *http.Request) string { return r.Header.Get("X-User") }, // Set by authentication.
	})
	if err != nil {
		panic(err)
	}
	orders := 0
	mux := guard.NewMux()
	mux.HandleFunc("POST /orders", idempotency.Idempotent(idempotency.Policy{}), func(w http.ResponseWriter, _ *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "order %d", orders)
	})
	mux.HandleFunc("POST /tokens", idempotency.NonIdempotent("a replayed token may have been rotated away"), func(http.ResponseWriter, *http.Request) {})

	send := func(path, body string) {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Idempotency-Key", `"8e03978e-40d5-43dd-bc93-6894a57f9324"`)
		r.Header.Set("X-User", "ann")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		answer := w.Result()
		defer answer.Body.Close()
		if answer.StatusCode >= 400 { // The body is problem details.
			fmt.Println(answer.Status)
			return
		}
		text, _ := io.ReadAll(answer.Body)
		fmt.Printf("%s: %s (replay: %q)\n", answer.Status, text, answer.Header.Get("X-Idempotent-Replay"))
	}
	send("/orders", `{"book":1}`)
	send("/orders", `{"book":1}`)
	send("/orders", `{"book":2}`)
	send("/tokens", "")
	// Output:
	// 201 Created: order 1 (replay: "")
	// 201 Created: order 1 (replay: "true")
	// 422 Unprocessable Entity
	// 400 Bad Request
}
