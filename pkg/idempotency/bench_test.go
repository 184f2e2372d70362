// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/memstore"
)

// discard is a writer that costs nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func benchmarked(b *testing.B) http.Handler {
	b.Helper()
	store, err := memstore.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	g, err := idempotency.New(store, nil, &idempotency.Options{ClientAddress: idempotency.RemoteAddress})
	if err != nil {
		b.Fatal(err)
	}
	return g.Wrap(idempotency.Idempotent(idempotency.Policy{Route: "/"}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
}

func BenchmarkPassThrough(b *testing.B) {
	h := benchmarked(b)
	w, r := discard{http.Header{}}, httptest.NewRequest(http.MethodPost, "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}

func BenchmarkReplay(b *testing.B) {
	h := benchmarked(b)
	serve := func() {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("body"))
		r.Header.Set("Idempotency-Key", "k")
		h.ServeHTTP(discard{http.Header{}}, r)
	}
	serve()
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
}
