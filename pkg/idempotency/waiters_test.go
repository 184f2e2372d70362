// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

// Of many repeats at the same time a few wait, and the others are told at once to come back.
func TestWaitersOfAKeyAreBounded(t *testing.T) {
	f := newFixture(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{Wait: patience, MaxWaiters: 2}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/orders/1" && calls.Add(1) == 1 {
			close(entered)
			<-leave
		}
		w.WriteHeader(http.StatusCreated)
	})
	answers := make(chan answer)
	send := func() {
		a, _ := order().try(t.Context(), server)
		answers <- a
	}
	go send()
	await(t, "the first request", entered)
	for range 5 {
		go send()
	}
	for range 3 {
		a := <-answers
		a.want(t, http.StatusConflict, idempotency.CodeInFlight)
		if a.header.Get("Retry-After") == "" {
			t.Error("the answer does not say when to come back")
		}
	}
	other := order()
	other.key, other.path = "k2", "/orders/2"
	if a := other.send(t, server); a.status != http.StatusCreated || a.replayed() {
		t.Errorf("another key got %+v", a)
	}
	close(leave)
	replayed := 0
	for range 3 {
		a := <-answers
		if a.status != http.StatusCreated {
			t.Errorf("answer is %+v", a)
		}
		if a.replayed() {
			replayed++
		}
	}
	if replayed != 2 || calls.Load() != 1 {
		t.Errorf("%d replays and %d calls, want 2 and 1", replayed, calls.Load())
	}
	// Nobody waits any more, so nobody is counted.
	if a := order().send(t, server); !a.replayed() {
		t.Errorf("afterwards: %+v", a)
	}
}
