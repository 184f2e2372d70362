// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

// handlers do what a writer of net/http allows. The guarded answer must be that of net/http, and so must the replay, as far as stated.
var handlers = []struct {
	name   string
	handle http.HandlerFunc
	// repeat is what the repeat gets: "replay", "tombstone" or "execute".
	repeat string
	// http1 says that HTTP/2 cannot do it.
	http1 bool
}{
	{name: "nothing written", handle: func(http.ResponseWriter, *http.Request) {}, repeat: "replay"},
	{name: "a header and nothing else", handle: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("ETag", `"1"`) }, repeat: "replay"},
	{name: "204", handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, repeat: "replay"},
	{name: "204 with a body", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := io.WriteString(w, "no"); !errors.Is(err, http.ErrBodyNotAllowed) {
			panic(fmt.Sprint("write to a 204: ", err))
		}
	}, repeat: "replay"},
	{name: "implicit 200", handle: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>sniffed</html>") }, repeat: "replay"},
	{name: "a content type that was switched off", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html>not sniffed</html>")
	}, repeat: "replay"},
	{name: "many writes", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		for range 1000 {
			_, _ = w.Write([]byte("0123456789"))
		}
	}, repeat: "replay"},
	{name: "the first status counts", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		w.WriteHeader(http.StatusInternalServerError)
	}, repeat: "replay"},
	{name: "a header after the status is too late", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"early"`)
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("ETag", `"late"`)
		w.Header().Set("Link", "<late>")
		_, _ = io.WriteString(w, "body")
	}, repeat: "replay"},
	{name: "103 before 201", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "body")
	}, repeat: "replay"},
	{name: "io.Copy", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, strings.NewReader(strings.Repeat("copied", 1000)))
	}, repeat: "replay"},
	{name: "a declared length", http1: true, handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "4")
		if _, err := io.WriteString(w, "1234"); err != nil {
			panic(err)
		}
		if _, err := io.WriteString(w, "5"); !errors.Is(err, http.ErrContentLength) {
			panic(fmt.Sprint("write of too much: ", err))
		}
	}, repeat: "replay"},
	{name: "announced trailers", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum, X-Unset")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", "42")
	}, repeat: "replay"},
	{name: "prefixed trailers", handle: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("long enough to be sent in chunks", 1000))
		w.Header().Set(http.TrailerPrefix+"X-Sum", "42")
	}, repeat: "replay"},
	{name: "several values of a header", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Link"] = []string{"<a>; rel=x", "<b, c>; rel=y"}
		w.WriteHeader(http.StatusCreated)
	}, repeat: "replay"},
	{name: "Flush", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "one ")
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "two")
	}, repeat: "tombstone"},
	{name: "Flush by the controller, before anything", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
		_, _ = io.WriteString(w, "data: 1\n\n")
	}, repeat: "tombstone"},
	{name: "Flush and trailers", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "body")
		w.(http.Flusher).Flush()
		w.Header().Set("X-Sum", "42")
	}, repeat: "tombstone"},
	{name: "a flushed failure", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		w.(http.Flusher).Flush()
	}, repeat: "execute"},
	{name: "a deadline by the controller", handle: func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience)); err != nil {
			panic(err)
		}
	}, repeat: "replay"},
	{name: "more than is kept", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		for range 300 {
			_, _ = w.Write(make([]byte, 1000))
		}
	}, repeat: "tombstone"},
	{name: "Hijack", http1: true, handle: func(w http.ResponseWriter, _ *http.Request) {
		conn, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = buffer.WriteString("HTTP/1.1 299 Own\r\nContent-Length: 3\r\nConnection: close\r\n\r\nown")
		_ = buffer.Flush()
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
			panic(fmt.Sprint("write after Hijack: ", err))
		}
	}, repeat: "tombstone"},
}

func TestReport19WriterDoesWhatThatOfNetHTTPDoes(t *testing.T) {
	for _, protocol := range []int{1, 2} {
		for _, tc := range handlers {
			if tc.http1 && protocol == 2 {
				continue
			}
			t.Run(fmt.Sprintf("%s/HTTP %d", tc.name, protocol), func(t *testing.T) {
				f := newFixture(t)
				var calls atomic.Int64
				handle := func(w http.ResponseWriter, r *http.Request) {
					calls.Add(1)
					tc.handle(w, r)
				}
				mux := f.guard(f.client(), nil).NewMux()
				mux.HandleFunc("POST /orders/{id}", idempotency.Idempotent(idempotency.Policy{MaxResponse: 200_000}), handle)
				plain, guarded := serveOver(t, protocol, http.HandlerFunc(handle)), serveOver(t, protocol, mux)
				want, wantEarly := traced(t, plain)
				first, firstEarly := traced(t, guarded)
				if !reflect.DeepEqual(wantEarly, firstEarly) {
					t.Errorf("informational answers are %v, want %v", firstEarly, wantEarly)
				}
				sameAnswer(t, "the first answer", first, want)
				before := calls.Load()
				second, _ := traced(t, guarded)
				switch tc.repeat {
				case "tombstone":
					second.want(t, http.StatusConflict, idempotency.CodeResponseUnavailable)
				case "replay":
					if !second.replayed() {
						t.Error("the repeat is not marked as a replay")
					}
					second.header.Del("X-Idempotent-Replay")
					sameAnswer(t, "the replay", second, want)
				}
				if executed := calls.Load() != before; executed != (tc.repeat == "execute") {
					t.Errorf("the repeat executed: %t", executed)
				}
			})
		}
	}
}

// serveOver serves on HTTP/1.1, or on HTTP/2 only.
func serveOver(t *testing.T, protocol int, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(t.Output(), nil), slog.LevelWarn)
	server.EnableHTTP2 = protocol == 2
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// traced sends the usual request, and returns also the informational answers.
func traced(t *testing.T, server *httptest.Server) (a answer, early []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		early = append(early, fmt.Sprint(code, header["Link"]))
		return nil
	}})
	a, err := order().try(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	return a, early
}

func sameAnswer(t *testing.T, what string, got, want answer) {
	t.Helper()
	for _, a := range []answer{got, want} {
		// The moment, and how the end of the body is told, which is the same to a client.
		for _, name := range []string{"Date", "Content-Length", "Transfer-Encoding"} {
			a.header.Del(name)
		}
	}
	if got.status != want.status || got.body != want.body || !reflect.DeepEqual(got.header, want.header) {
		t.Errorf("%s is %d %v with %d bytes, want %d %v with %d", what, got.status, got.header, len(got.body), want.status, want.header, len(want.body))
	}
	for _, a := range []answer{got, want} {
		for name, values := range a.trailer {
			if len(values) == 0 { // Announced and never set.
				delete(a.trailer, name)
			}
		}
	}
	if len(got.trailer) != len(want.trailer) || len(got.trailer) > 0 && !reflect.DeepEqual(got.trailer, want.trailer) {
		t.Errorf("%s has the trailers %v, want %v", what, got.trailer, want.trailer)
	}
}

// plainWriter can do nothing but what every http.ResponseWriter can.
type plainWriter struct{ http.ResponseWriter }

func TestWriterOffersWhatTheOneBelowOffers(t *testing.T) {
	f := newFixture(t)
	type flushHijacker struct {
		http.ResponseWriter
		http.Flusher
		http.Hijacker
	}
	for name, tc := range map[string]struct {
		w                http.ResponseWriter
		flushes, hijacks bool
	}{
		"plain":   {plainWriter{httptest.NewRecorder()}, false, false},
		"flushes": {httptest.NewRecorder(), true, false},
		"hijacks": {struct {
			http.ResponseWriter
			http.Hijacker
		}{httptest.NewRecorder(), nil}, false, true},
		"both": {flushHijacker{httptest.NewRecorder(), httptest.NewRecorder(), nil}, true, true},
	} {
		h := f.guard(nil, nil).Wrap(idempotency.Idempotent(idempotency.Policy{Route: "/"}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, flushes := w.(http.Flusher)
			_, hijacks := w.(http.Hijacker)
			_, readsFrom := w.(io.ReaderFrom)
			if flushes != tc.flushes || hijacks != tc.hijacks || readsFrom {
				t.Errorf("%s: flushes %t, hijacks %t, reads from %t", name, flushes, hijacks, readsFrom)
			}
			if err := http.NewResponseController(w).Flush(); !tc.flushes && !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("%s: the controller's Flush: %v", name, err)
			}
		}))
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Idempotency-Key", name)
		r.Header.Set("X-User", "ann")
		h.ServeHTTP(tc.w, r)
	}
}

func TestInvalidStatusPanicsAsInNetHTTP(t *testing.T) {
	f := newFixture(t)
	server := f.replica(idempotency.Policy{}, func(w http.ResponseWriter, _ *http.Request) {
		defer func() {
			if recover() == nil {
				t.Error("status 42 was taken")
			}
		}()
		w.WriteHeader(42)
	})
	order().send(t, server)
}

func TestExpectContinue(t *testing.T) {
	f := newFixture(t)
	server := f.replica(idempotency.Policy{}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	server.Client().Transport.(*http.Transport).ExpectContinueTimeout = patience // Without 100 the body comes too late for this test.
	r := order()
	r.header = http.Header{"Expect": {"100-continue"}}
	for _, replayed := range []bool{false, true} {
		if a := r.send(t, server); a.body != r.body || a.replayed() != replayed {
			t.Errorf("%+v", a)
		}
	}
}

func TestPanicStoresNothingReleasesAndGoesOn(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	g := f.guard(f.client(), nil)
	h := g.Wrap(idempotency.Idempotent(idempotency.Policy{Route: "/"}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		if r.Header.Get("X-Committed") != "" {
			idempotency.Committed(r.Context())
		}
		if n == 1 || r.Header.Get("X-Committed") != "" {
			w.WriteHeader(http.StatusCreated)
			panic(http.ErrAbortHandler)
		}
	}))
	serve := func(key, committed string) (w *httptest.ResponseRecorder, panicked any) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("X-User", "ann")
		if committed != "" {
			r.Header.Set("X-Committed", committed)
		}
		w = httptest.NewRecorder()
		return w, recovered(func() { h.ServeHTTP(w, r) })
	}
	if _, panicked := serve("k", ""); panicked != http.ErrAbortHandler { //nolint:errorlint // The value itself goes on.
		t.Errorf("panicked with %v", panicked)
	}
	if w, panicked := serve("k", ""); panicked != nil || w.Code != http.StatusOK || calls.Load() != 2 {
		t.Errorf("the repeat got %d and %v after %d calls: the key was not freed", w.Code, panicked, calls.Load())
	}
	if _, panicked := serve("committed", "yes"); panicked == nil {
		t.Error("the panic did not go on")
	}
	w, _ := serve("committed", "yes")
	answer{w.Code, w.Header(), nil, w.Body.String()}.want(t, http.StatusConflict, idempotency.CodeResponseUnavailable)
	if calls.Load() != 3 {
		t.Errorf("%d calls, want none after the committed one", calls.Load())
	}
}

func TestHandlerGetsTheFence(t *testing.T) {
	f := newFixture(t)
	server := f.replica(idempotency.Policy{}, func(w http.ResponseWriter, r *http.Request) {
		token, ok := idempotency.Fence(r.Context())
		_, _ = fmt.Fprint(w, ok, !token.IsZero())
	})
	if a := order().send(t, server); a.body != "true true" {
		t.Errorf("the fence is %q", a.body)
	}
	r := order()
	r.key = ""
	if a := r.send(t, server); a.body != "false false" {
		t.Errorf("without a key the fence is %q", a.body)
	}
}

func TestFilesOfAFormAreRemoved(t *testing.T) {
	f := newFixture(t)
	var form *http.Request
	outer := f.guard(f.client(), nil).Wrap(idempotency.Idempotent(idempotency.Policy{Route: "/"}), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
	}))
	body := "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\ncontent\r\n--b--\r\n"
	form = httptest.NewRequest(http.MethodPost, "/", bufio.NewReader(strings.NewReader(body)))
	form.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	form.Header.Set("Idempotency-Key", "k")
	form.Header.Set("X-User", "ann")
	outer.ServeHTTP(httptest.NewRecorder(), form)
	if form.MultipartForm == nil {
		t.Fatal("the server does not see the form, so it would not remove its files")
	}
	if err := form.MultipartForm.RemoveAll(); err != nil {
		t.Error(err)
	}
}

// An execution that follows one whose replica died, or whose record is gone, finds what that one wrote under the operation's key.
func TestOperationKeyIsThatOfTheClientsKeyOnEveryReplica(t *testing.T) {
	f := newFixture(t)
	var seen []idempotency.Key
	handler := func(w http.ResponseWriter, r *http.Request) {
		key, ok := idempotency.OperationKey(r.Context())
		if !ok {
			t.Error("a request with a key has no operation")
		}
		seen = append(seen, key)
		w.WriteHeader(http.StatusServiceUnavailable) // Not stored: a repeat executes again.
	}
	one, other := f.replica(idempotency.Policy{}, handler), f.replica(idempotency.Policy{}, handler)
	bobs, another := order(), order()
	bobs.user, another.key = "bob", "k2"
	order().send(t, one)
	order().send(t, other)
	bobs.send(t, one)
	another.send(t, one)
	if len(seen) != 4 || seen[0] != seen[1] || seen[0] == seen[2] || seen[0] == seen[3] || seen[2] == seen[3] {
		t.Errorf("the operations are %v, want the first two alike and no others", seen)
	}
	if key, ok := idempotency.OperationKey(t.Context()); ok {
		t.Errorf("there is the operation %s without a request", key)
	}
}
