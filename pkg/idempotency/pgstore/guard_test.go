// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/pgstore"
)

// Replicas without a lock, each with a guard and a pool of its own: the record alone keeps them apart.
func TestTheRecordGuardsReplicasWithoutALock(t *testing.T) {
	url := server.Database(t)
	run(t, newPool(t, url), pgstore.Schema(""))
	var calls atomic.Int64
	entered, leave := make(chan struct{}), make(chan struct{})
	var replicas []http.Handler
	for range 3 {
		guard, err := idempotency.New(newStore(t, newPool(t, url), nil), nil, &idempotency.Options{ClientAddress: idempotency.RemoteAddress})
		if err != nil {
			t.Fatal(err)
		}
		mux := guard.NewMux()
		mux.HandleFunc("POST /orders", idempotency.Idempotent(idempotency.Policy{}), func(w http.ResponseWriter, _ *http.Request) {
			if calls.Add(1) == 1 {
				close(entered)
			}
			<-leave
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte("order"))
		})
		replicas = append(replicas, mux)
	}
	send := func(h http.Handler) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("body"))
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	var first *httptest.ResponseRecorder
	var sending sync.WaitGroup
	sending.Go(func() { first = send(replicas[0]) })
	<-entered
	for _, other := range replicas[1:] {
		if w := send(other); w.Code != http.StatusConflict || w.Header().Get("Retry-After") == "" {
			t.Errorf("during the execution another replica answers %d: %s", w.Code, w.Body)
		}
	}
	close(leave)
	sending.Wait()
	if first.Code != http.StatusCreated || first.Header().Get("X-Idempotent-Degraded") != "" {
		t.Errorf("the first got %d: %s", first.Code, first.Body)
	}
	for i, h := range replicas {
		if w := send(h); w.Code != http.StatusCreated || w.Body.String() != "order" || w.Header().Get("X-Idempotent-Replay") != "true" {
			t.Errorf("afterwards replica %d answers %d: %s", i, w.Code, w.Body)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("the handler ran %d times", calls.Load())
	}
}

// Poolers in transaction mode may need a mode without prepared statements.
func TestEveryModeOfPgxWorks(t *testing.T) {
	url := server.Database(t)
	run(t, newPool(t, url), pgstore.Schema(""))
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		store := newStore(t, newPool(t, url+"&default_query_exec_mode="+mode), nil)
		if err := store.Check(t.Context()); err != nil {
			t.Errorf("%s: Check: %v", mode, err)
		}
		key, claim := newKey(), newClaim()
		claim.Fingerprint[0] = 0xff
		if r, err := store.Begin(t.Context(), key, claim); err != nil || !r.Owned(claim.Ownership) {
			t.Errorf("%s: Begin: %+v, %v", mode, r, err)
			continue
		}
		if err := store.Extend(t.Context(), key, claim.Ownership, 2*claim.Lease); err != nil {
			t.Errorf("%s: Extend: %v", mode, err)
		}
		if r, err := store.Get(t.Context(), key); err != nil || r.Left <= claim.Lease || r.Fingerprint != claim.Fingerprint {
			t.Errorf("%s: after Extend: %+v, %v", mode, r, err)
		}
		result := idempotency.Result{State: idempotency.Done, Response: []byte("\x00\xff'\\"), Retention: claim.Retention}
		if err := store.Complete(t.Context(), key, claim.Ownership, result); err != nil {
			t.Errorf("%s: Complete: %v", mode, err)
		}
		if r, err := store.Get(t.Context(), key); err != nil || string(r.Response) != string(result.Response) {
			t.Errorf("%s: after Complete: %+v, %v", mode, r, err)
		}
	}
}
