// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/memstore"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

func statusOf(r *http.Request) int {
	status, err := strconv.Atoi(r.Header.Get("X-Status"))
	if err != nil {
		return http.StatusOK
	}
	return status
}

func mustMemstore(t *testing.T, options *memstore.Options) idempotency.Store {
	t.Helper()
	store, err := memstore.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// stripedHandler is a guarded handler without a distributed lock, on Go's clock, for the time of a synctest bubble. X-Fail makes it answer with a status, and
// X-Sleep makes it take a time.
func stripedHandler(t *testing.T, store idempotency.Store, policy idempotency.Policy) (http.Handler, *atomic.Int64) {
	t.Helper()
	g, err := idempotency.New(store, nil, &idempotency.Options{ClientAddress: idempotency.RemoteAddress, Clock: clock.Monotonic()})
	if err != nil {
		t.Fatal(err)
	}
	policy.Route = "/"
	var calls atomic.Int64
	return g.Wrap(idempotency.Idempotent(policy), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if d, err := time.ParseDuration(r.Header.Get("X-Sleep")); err == nil {
			pause := time.NewTimer(d)
			select {
			case <-pause.C:
			case <-r.Context().Done():
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
		}
		if status, err := strconv.Atoi(r.Header.Get("X-Fail")); err == nil {
			w.WriteHeader(status)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})), &calls
}

func serveOnce(h http.Handler, header http.Header, body string) answer {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	maps.Copy(r.Header, header)
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Result().Header, nil, w.Body.String()}
}

func TestReport06WithoutAnEndItCountsAsHeld(t *testing.T) {
	// A store that tells nothing about the lease of a record in flight.
	store := mustMemstore(t, nil)
	spy := &keySpy{Store: store}
	h, calls := stripedHandler(t, spy, idempotency.Policy{})
	serveOnce(h, http.Header{"X-Fail": {"500"}}, "body")
	h2, calls2 := stripedHandler(t, endless{store, spy.fingerprint}, idempotency.Policy{})
	a := serveOnce(h2, nil, "body")
	a.want(t, http.StatusConflict, idempotency.CodeInFlight)
	if calls.Load() != 1 || calls2.Load() != 0 {
		t.Errorf("%d and %d calls", calls.Load(), calls2.Load())
	}
}

func TestReport18EncodingOfTheHandlerIsKeptAndHonoured(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{}, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, "encoded bytes")
	})
	r := order()
	r.header = http.Header{"Accept-Encoding": {"gzip, br;q=0.5"}}
	r.send(t, server)
	if a := r.send(t, server); !a.replayed() || a.header.Get("Content-Encoding") != "br" || a.body != "encoded bytes" {
		t.Errorf("the replay is %+v", a)
	}
	for _, accepted := range []string{"identity", "br;q=0, gzip"} {
		r.header = http.Header{"Accept-Encoding": {accepted}}
		r.send(t, server).want(t, http.StatusConflict, idempotency.CodeResponseUnavailable)
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls", calls.Load())
	}
}

func TestReport20UndeclaredProtectionIsRefused(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	mux := f.guard(f.client(), nil).NewMux()
	mux.HandleFunc("POST /orders/{id}", idempotency.NonIdempotent("every call draws a new lot"), counting(&calls))
	server := f.serve(mux)
	order().send(t, server).want(t, http.StatusBadRequest, idempotency.CodeKeyUnsupported)
	r := order()
	r.key = ""
	if a := r.send(t, server); a.status != http.StatusCreated {
		t.Errorf("without a key: %+v", a)
	}
	options := f.options()
	options.IgnoreKeys = true
	mux = f.guard(f.client(), options).NewMux()
	mux.HandleFunc("POST /orders/{id}", idempotency.NonIdempotent("every call draws a new lot"), counting(&calls))
	if a := order().send(t, f.serve(mux)); a.status != http.StatusCreated || calls.Load() != 2 {
		t.Errorf("with IgnoreKeys: %+v after %d calls", a, calls.Load())
	}
}

// endless says of every record that it is in flight, and nothing else.
type endless struct {
	idempotency.Store
	fingerprint idempotency.Fingerprint
}

func (e endless) record() idempotency.Record {
	return idempotency.Record{State: idempotency.InFlight, Fingerprint: e.fingerprint}
}

func (e endless) Get(context.Context, idempotency.Key) (idempotency.Record, error) {
	return e.record(), nil
}

func (e endless) Begin(context.Context, idempotency.Key, idempotency.Claim) (idempotency.Record, error) {
	return e.record(), nil
}
