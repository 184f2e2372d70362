// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotencyclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/idempotencyclient"
	"github.com/lockstead/lockstead/pkg/idempotency/memstore"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// sent is what a scripted base saw.
type sent struct {
	key, body string
	at        time.Duration
}

// script answers with its steps, one an attempt, within a synctest bubble.
type script struct {
	steps []step
	start time.Time
	seen  []sent
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	s.seen = append(s.seen, sent{r.Header.Get("Idempotency-Key"), string(body), time.Since(s.start)})
	step := s.steps[min(len(s.seen), len(s.steps))-1]
	if step.code == 0 {
		return nil, errReset
	}
	resp := &http.Response{StatusCode: step.code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("answer"))}
	if step.retryAfter != "" {
		resp.Header.Set("Retry-After", step.retryAfter)
	}
	return resp, nil
}

var errReset = errors.New("connection reset")

// step is an answer, or a lost connection.
type step struct {
	code       int
	retryAfter string
}

func TestKeyAndBodyAreTheSameOverRetries(t *testing.T) {
	for name, tc := range map[string]struct {
		steps      []step
		wantStatus int // 0 for an error
		wantAt     []time.Duration
	}{
		"at once":                         {[]step{{201, ""}}, 201, []time.Duration{0}},
		"after lost connections":          {[]step{{}, {}, {201, ""}}, 201, []time.Duration{0, 200 * time.Millisecond, 600 * time.Millisecond}},
		"in flight":                       {[]step{{409, "7"}, {201, ""}}, 201, []time.Duration{0, 7 * time.Second}},
		"a conflict of the application":   {[]step{{409, ""}}, 409, []time.Duration{0}},
		"mismatch":                        {[]step{{422, ""}}, 422, []time.Duration{0}},
		"too many requests":               {[]step{{429, "2"}, {200, ""}}, 200, []time.Duration{0, 2 * time.Second}},
		"longer than anybody waits":       {[]step{{503, "3600"}}, 503, []time.Duration{0}},
		"the last answer is returned":     {[]step{{503, "1"}}, 503, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}},
		"the last error is returned":      {[]step{{}}, 0, []time.Duration{0, 200 * time.Millisecond, 600 * time.Millisecond, 1400 * time.Millisecond}},
		"a date is no number of seconds":  {[]step{{503, "Wed, 21 Oct 2015 07:28:00 GMT"}, {200, ""}}, 200, []time.Duration{0, 200 * time.Millisecond}},
		"a failure of the server (final)": {[]step{{501, ""}}, 501, []time.Duration{0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			base := &script{steps: tc.steps, start: time.Now()}
			transport, err := idempotencyclient.New(base, &idempotencyclient.Options{Clock: clock.Monotonic()})
			if err != nil {
				t.Fatal(err)
			}
			// A body that cannot be had twice.
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com/", io.NopCloser(strings.NewReader("body")))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.RoundTrip(r)
			switch {
			case tc.wantStatus == 0 && !errors.Is(err, errReset):
				t.Errorf("%s: %v, want %v", name, err, errReset)
			case tc.wantStatus != 0 && (err != nil || resp.StatusCode != tc.wantStatus):
				t.Errorf("%s: %+v, %v, want %d", name, resp, err, tc.wantStatus)
			}
			if resp != nil {
				_ = resp.Body.Close()
			}
			var at []time.Duration
			for _, s := range base.seen {
				at = append(at, s.at)
				if s.key == "" || s.key != base.seen[0].key || s.body != "body" {
					t.Errorf("%s: sent %+v, want the first key and the whole body", name, s)
				}
			}
			if !slices.Equal(at, tc.wantAt) {
				t.Errorf("%s: sent at %v, want %v", name, at, tc.wantAt)
			}
			if r.Header.Get("Idempotency-Key") != "" {
				t.Errorf("%s: the caller's request was changed", name)
			}
		})
	}
}

func post(ctx context.Context, t *testing.T, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://example.com/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestKeyIsNeverReusedForAnotherRequest(t *testing.T) {
	base := &script{steps: []step{{200, ""}}}
	transport, err := idempotencyclient.New(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	send := func(r *http.Request) error {
		resp, err := transport.RoundTrip(r)
		if resp != nil {
			_ = resp.Body.Close()
		}
		return err
	}
	for range 2 {
		if err := send(post(t.Context(), t, "same")); err != nil {
			t.Fatal(err)
		}
	}
	if base.seen[0].key == base.seen[1].key {
		t.Error("two requests have one key")
	}
	ctx := idempotencyclient.WithKey(t.Context(), `order "7"`)
	for range 2 {
		if err := send(post(ctx, t, "body")); err != nil {
			t.Fatal(err)
		}
	}
	if base.seen[2].key != `"order \"7\""` || base.seen[3].key != base.seen[2].key {
		t.Errorf("the key of the application was sent as %q and %q", base.seen[2].key, base.seen[3].key)
	}
	before := len(base.seen)
	if err := send(post(ctx, t, "another body")); !errors.Is(err, idempotencyclient.ErrKeyReused) {
		t.Errorf("another body: %v", err)
	}
	put := post(ctx, t, "body")
	put.Method = http.MethodPut
	if err := send(put); !errors.Is(err, idempotencyclient.ErrKeyReused) {
		t.Errorf("another method: %v", err)
	}
	if len(base.seen) != before {
		t.Error("it was sent")
	}
}

func TestWhatGoesThroughAsItIs(t *testing.T) {
	base := &script{steps: []step{{503, ""}}}
	transport, err := idempotencyclient.New(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	get, own := post(t.Context(), t, ""), post(t.Context(), t, "body")
	get.Method = http.MethodGet
	own.Header.Set("Idempotency-Key", "mine")
	for i, r := range []*http.Request{get, own} {
		resp, err := transport.RoundTrip(r)
		if err != nil || len(base.seen) != i+1 {
			t.Fatalf("%v after %d attempts", err, len(base.seen))
		}
		_ = resp.Body.Close()
	}
	if base.seen[0].key != "" || base.seen[1].key != "mine" {
		t.Errorf("sent %+v", base.seen)
	}
}

func TestRefusals(t *testing.T) {
	transport, err := idempotencyclient.New(&script{}, &idempotencyclient.Options{MaxBody: 3})
	if err != nil {
		t.Fatal(err)
	}
	r := post(t.Context(), t, "")
	r.Body, r.GetBody = io.NopCloser(strings.NewReader("four")), nil
	resp, err := transport.RoundTrip(r)
	if _, ok := errors.AsType[*idempotencyclient.BodyError](err); !ok {
		t.Errorf("a body that is too large: %v", err)
	}
	if resp != nil {
		_ = resp.Body.Close()
	}
	resp, err = transport.RoundTrip(post(idempotencyclient.WithKey(t.Context(), "schlüssel"), t, ""))
	if _, ok := errors.AsType[*idempotency.KeyError](err); !ok {
		t.Errorf("a key that no server takes: %v", err)
	}
	if resp != nil {
		_ = resp.Body.Close()
	}
	for _, o := range []idempotencyclient.Options{{MaxAttempts: -1}, {Pause: -1}, {MaxPause: -1}, {MaxBody: -1}} {
		_, err := idempotencyclient.New(nil, &o)
		if _, ok := errors.AsType[*idempotency.InvalidError](err); !ok {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestLostAnswerIsFetchedAndNotExecutedAgain(t *testing.T) {
	store, err := memstore.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := idempotency.New(store, nil, &idempotency.Options{ClientAddress: idempotency.RemoteAddress})
	if err != nil {
		t.Fatal(err)
	}
	var calls, requests atomic.Int64
	mux := guard.NewMux()
	mux.HandleFunc("POST /orders", idempotency.Idempotent(idempotency.Policy{}), func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusCreated)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 2 {
			mux.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // The answer is lost.
	}))
	defer server.Close()
	transport, err := idempotencyclient.New(server.Client().Transport, &idempotencyclient.Options{Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Post(server.URL+"/orders", "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated || resp.Header.Get("X-Idempotent-Replay") != "true" || calls.Load() != 1 || requests.Load() != 3 {
		t.Errorf("%d, %v after %d calls and %d requests", resp.StatusCode, resp.Header, calls.Load(), requests.Load())
	}
}
