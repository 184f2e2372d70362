// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

func TestReport13StreamedBodyIsHashedWhole(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{MaxBody: 1000}, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(w, r.Body)
	})
	send := func(body string) answer {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		req, err := order().build(ctx, server)
		if err != nil {
			t.Fatal(err)
		}
		req.Body, req.ContentLength, req.GetBody = io.NopCloser(strings.NewReader(body)), -1, nil // Chunked.
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, _ := io.ReadAll(resp.Body)
		return answer{resp.StatusCode, resp.Header, nil, string(got)}
	}
	long := strings.Repeat("a", 999)
	if a := send(long + "1"); a.body != long+"1" {
		t.Fatalf("the handler got %q", a.body)
	}
	if a := send(long + "1"); !a.replayed() {
		t.Errorf("the repeat got %+v", a)
	}
	send(long+"2").want(t, http.StatusUnprocessableEntity, idempotency.CodeMismatch)
	send(long+"12").want(t, http.StatusRequestEntityTooLarge, idempotency.CodeBodyTooLarge)
	if calls.Load() != 1 {
		t.Errorf("%d calls", calls.Load())
	}
}

func TestReport14And15OversizedAnswerIsATombstoneAndNeverRunsTwice(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	body := strings.Repeat("x", 2000)
	server := f.replica(idempotency.Policy{MaxResponse: 1000}, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Location", "/orders/1")
		w.WriteHeader(http.StatusCreated)
		for i := 0; i < len(body); i += 100 {
			_, _ = io.WriteString(w, body[i:i+100])
		}
	})
	if a := order().send(t, server); a.status != http.StatusCreated || a.body != body {
		t.Fatalf("the first answer has %d bytes and status %d, want all %d", len(a.body), a.status, len(body))
	}
	a := order().send(t, server)
	a.want(t, http.StatusConflict, idempotency.CodeResponseUnavailable)
	if a.header.Get("Location") != "/orders/1" || !strings.Contains(a.body, `"originalStatus":201`) || a.header.Get("Retry-After") != "" || !a.replayed() {
		t.Errorf("the repeat got %+v %s", a.header, a.body)
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls", calls.Load())
	}
}

func TestReport16HeadersAreKeptVerbatimAndCookiesNever(t *testing.T) {
	f := newFixture(t)
	server := f.replica(idempotency.Policy{Headers: []string{"x-part"}}, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["X-Part"] = []string{"a, b", "c"}
		h["Link"] = []string{"<1>; rel=a", "<2>; rel=b"}
		h.Set("ETag", `"v1"`)
		h.Set("X-Other", "no")
		http.SetCookie(w, &http.Cookie{Name: "session", Value: rand.Text()})
		h.Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusCreated)
	})
	if a := order().send(t, server); a.header.Get("Set-Cookie") == "" || a.header.Get("X-Other") == "" {
		t.Errorf("the first answer lacks headers: %v", a.header)
	}
	a := order().send(t, server)
	if !a.replayed() || len(a.header["X-Part"]) != 2 || a.header["X-Part"][0] != "a, b" || len(a.header["Link"]) != 2 || a.header.Get("ETag") != `"v1"` {
		t.Errorf("the replay has %v", a.header)
	}
	for _, name := range []string{"Set-Cookie", "Www-Authenticate", "X-Other"} {
		if _, ok := a.header[name]; ok {
			t.Errorf("the replay has %s", name)
		}
	}
}

func TestReport17WhatIsStored(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{StoreStatuses: []int{409, 422}}, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get("X-Committed") != "" {
			idempotency.Committed(r.Context())
		}
		if r.Header.Get("X-Status") == "303" {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(statusOf(r))
	})
	server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for status, stored := range map[string]bool{
		"200": true, "202": true, "204": true, "409": true, "422": true,
		"303": false, "400": false, "401": false, "403": false, "404": false, "408": false, "425": false, "429": false, "500": false, "503": false, "504": false,
	} {
		r := order()
		r.key, r.header = status, http.Header{"X-Status": {status}}
		before := calls.Load()
		first, second := r.send(t, server), r.send(t, server)
		if second.status != first.status || second.replayed() != stored || calls.Load()-before != map[bool]int64{true: 1, false: 2}[stored] {
			t.Errorf("%s: the repeat got %d, replayed %t, after %d calls", status, second.status, second.replayed(), calls.Load()-before)
		}
		if stored {
			continue
		}
		// With the effect done, the same failure is a tombstone.
		r.key, r.header = status+"-committed", http.Header{"X-Status": {status}, "X-Committed": {"yes"}}
		before = calls.Load()
		if a := r.send(t, server); a.status != first.status {
			t.Errorf("%s committed: the first answer is %d", status, a.status)
		}
		a := r.send(t, server)
		a.want(t, http.StatusConflict, idempotency.CodeResponseUnavailable)
		if !strings.Contains(a.body, `"originalStatus":`+status) || calls.Load()-before != 1 {
			t.Errorf("%s committed: %s after %d calls", status, a.body, calls.Load()-before)
		}
	}
}
