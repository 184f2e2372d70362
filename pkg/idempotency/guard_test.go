// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

func TestReplay(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	one, two := f.replica(idempotency.Policy{}, counting(&calls)), f.replica(idempotency.Policy{}, counting(&calls))
	first := order().send(t, one)
	if first.status != http.StatusCreated || first.body != "call 1" || first.replayed() {
		t.Fatalf("first answer is %+v", first)
	}
	before := f.store.calls()
	second := order().send(t, two)
	if second.status != first.status || second.body != first.body || !second.replayed() || second.header.Get("Location") != "/orders/1" ||
		second.header.Get("Content-Type") != first.header.Get("Content-Type") {
		t.Errorf("replay is %+v, want %+v", second, first)
	}
	if used := f.store.calls() - before; used != 1 {
		t.Errorf("the replay took %d round trips to the store, want 1", used)
	}
	if calls.Load() != 1 {
		t.Errorf("the handler ran %d times", calls.Load())
	}
}

// rawWriter tells whether a handler got the writer of the server itself.
type rawWriter struct{ http.ResponseWriter }

func TestPassThroughIsUntouched(t *testing.T) {
	f := newFixture(t)
	body := io.NopCloser(strings.NewReader("body"))
	for name, lines := range map[string][]string{"absent": nil, "blank": {" \t"}} {
		var sawBody io.ReadCloser
		var sawWriter http.ResponseWriter
		h := f.guard(nil, nil).Wrap(idempotency.Idempotent(idempotency.Policy{Route: "/"}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sawBody, sawWriter = r.Body, w
		}))
		w := &rawWriter{httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Body, r.Header["Idempotency-Key"] = body, lines
		h.ServeHTTP(w, r)
		if sawBody != body || sawWriter != http.ResponseWriter(w) {
			t.Errorf("%s: body or writer were wrapped: %T, %T", name, sawBody, sawWriter)
		}
		if n := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
	if f.store.calls() != 0 {
		t.Errorf("%d calls of the store", f.store.calls())
	}
}

func TestSafeMethodsNeverEnter(t *testing.T) {
	f := newFixture(t)
	calls := 0
	h := f.guard(nil, nil).Wrap(idempotency.Idempotent(idempotency.Policy{Route: "/"}), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }))
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace} {
		for range 2 {
			r := httptest.NewRequest(method, "/", nil)
			r.Header.Set("Idempotency-Key", "k")
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	if calls != 8 || f.store.calls() != 0 {
		t.Errorf("%d calls of the handler and %d of the store, want 8 and none", calls, f.store.calls())
	}
}

func TestRequiredKey(t *testing.T) {
	f := newFixture(t)
	options := f.options()
	options.PolicyLink = "https://api.example.com/docs/idempotency"
	mux := f.guard(f.client(), options).NewMux()
	var calls atomic.Int64
	mux.HandleFunc("POST /orders/{id}", idempotency.Idempotent(idempotency.Policy{Required: true}), counting(&calls))
	server := f.serve(mux)
	for name, header := range map[string]http.Header{"absent": nil, "blank": {"Idempotency-Key": {" "}}} {
		r := order()
		r.key, r.header = "", header
		a := r.send(t, server)
		a.want(t, http.StatusBadRequest, idempotency.CodeKeyMissing)
		if link := a.header.Get("Link"); link != `<https://api.example.com/docs/idempotency>; rel="describedby"` {
			t.Errorf("%s: Link is %q", name, link)
		}
		if !strings.Contains(a.body, `"type":"https://api.example.com/docs/idempotency#idempotency-key-missing"`) {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	if calls.Load() != 0 {
		t.Errorf("the handler ran %d times", calls.Load())
	}
}

func TestInFlightAnswers409AndNeverExecutes(t *testing.T) {
	f := newFixture(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	policy := idempotency.Policy{NoWait: true}
	handler := func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		close(entered)
		<-leave
		w.WriteHeader(http.StatusCreated)
	}
	one, two := f.replica(policy, handler), f.replica(policy, handler)
	done := make(chan answer, 1)
	go func() {
		a, _ := order().try(t.Context(), one)
		done <- a
	}()
	await(t, "the first request", entered)
	for _, server := range []*httptest.Server{one, two} {
		a := order().send(t, server)
		a.want(t, http.StatusConflict, idempotency.CodeInFlight)
		if a.header.Get("Retry-After") != "30" || !strings.Contains(a.body, `"retryAfter":30`) {
			t.Errorf("Retry-After is %q, want the 30 s that are left: %s", a.header.Get("Retry-After"), a.body)
		}
	}
	r := order()
	r.body = "other"
	r.send(t, two).want(t, http.StatusUnprocessableEntity, idempotency.CodeMismatch)
	close(leave)
	if a := <-done; a.status != http.StatusCreated || calls.Load() != 1 {
		t.Errorf("the first got %+v after %d calls", a, calls.Load())
	}
}

func TestDuplicateWaitsAndReplays(t *testing.T) {
	f := newFixture(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	handler := func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		close(entered)
		<-leave
		w.WriteHeader(http.StatusNoContent)
	}
	policy := idempotency.Policy{Wait: patience}
	servers := []*httptest.Server{f.replica(policy, handler), f.replica(policy, handler)}
	answers := make(chan answer)
	send := func(server *httptest.Server) {
		a, _ := order().try(t.Context(), server)
		answers <- a
	}
	go send(servers[0])
	await(t, "the first request", entered)
	go send(servers[0])
	go send(servers[1])
	close(leave)
	replayed := 0
	for range 3 {
		a := <-answers
		if a.status != http.StatusNoContent {
			t.Errorf("answer is %+v", a)
		}
		if a.replayed() {
			replayed++
		}
	}
	if replayed != 2 || calls.Load() != 1 {
		t.Errorf("%d replays and %d calls, want 2 and 1", replayed, calls.Load())
	}
}

func TestFailedAttemptLetsTheWaiterExecute(t *testing.T) {
	f := newFixture(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{Wait: patience}, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			close(entered)
			<-leave
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	first, second := make(chan answer, 1), make(chan answer, 1)
	go func() { a, _ := order().try(t.Context(), server); first <- a }()
	await(t, "the first request", entered)
	go func() { a, _ := order().try(t.Context(), server); second <- a }()
	close(leave)
	if a := <-first; a.status != http.StatusBadGateway {
		t.Errorf("the first got %+v", a)
	}
	if a := <-second; a.status != http.StatusCreated || a.replayed() || calls.Load() != 2 {
		t.Errorf("the second got %+v after %d calls", a, calls.Load())
	}
}

func TestWiringRefusesWhatCannotWork(t *testing.T) {
	f := newFixture(t)
	g := f.guard(f.client(), nil)
	for name, tc := range map[string]struct {
		d        idempotency.Declaration
		argument string
	}{
		"zero declaration":     {idempotency.Declaration{}, "declaration"},
		"empty reason":         {idempotency.NonIdempotent(" "), "reason"},
		"placeholder":          {idempotency.NonIdempotent("TODO: think about this"), "reason"},
		"short reason":         {idempotency.NonIdempotent("because"), "reason"},
		"negative TTL":         {idempotency.Idempotent(idempotency.Policy{TTL: -1}), "Policy.TTL"},
		"TTL over the maximum": {idempotency.Idempotent(idempotency.Policy{TTL: 2 * time.Hour}), "Policy.TTL"},
		"tiny TTL":             {idempotency.Idempotent(idempotency.Policy{TTL: time.Millisecond}), "Policy.TTL"},
		"wait and NoWait":      {idempotency.Idempotent(idempotency.Policy{Wait: 1, NoWait: true}), "Policy.Wait"},
		"short retention":      {idempotency.Idempotent(idempotency.Policy{Retention: time.Second}), "Policy.Retention"},
		"negative waiters":     {idempotency.Idempotent(idempotency.Policy{MaxWaiters: -1}), "Policy.MaxWaiters"},
		"negative body":        {idempotency.Idempotent(idempotency.Policy{MaxBody: -1}), "Policy.MaxBody"},
		"negative response":    {idempotency.Idempotent(idempotency.Policy{MaxResponse: -1}), "Policy.MaxResponse"},
		"cookies":              {idempotency.Idempotent(idempotency.Policy{Headers: []string{"set-cookie"}}), "Policy.Headers"},
		"the replay header":    {idempotency.Idempotent(idempotency.Policy{Headers: []string{"X-Idempotent-Replay"}}), "Policy.Headers"},
		"401":                  {idempotency.Idempotent(idempotency.Policy{StoreStatuses: []int{401}}), "Policy.StoreStatuses"},
		"429":                  {idempotency.Idempotent(idempotency.Policy{StoreStatuses: []int{409, 429}}), "Policy.StoreStatuses"},
		"500":                  {idempotency.Idempotent(idempotency.Policy{StoreStatuses: []int{500}}), "Policy.StoreStatuses"},
		"a redirect":           {idempotency.Idempotent(idempotency.Policy{StoreStatuses: []int{303}}), "Policy.StoreStatuses"},
	} {
		var invalid *idempotency.InvalidError
		if err := g.Check(tc.d); !errors.As(err, &invalid) || invalid.Argument != tc.argument {
			t.Errorf("%s: %v, want an *InvalidError of %s", name, err, tc.argument)
		}
		got := recovered(func() { g.Wrap(tc.d, http.NotFoundHandler()) })
		if err, ok := got.(error); !ok || !errors.As(err, &invalid) || invalid.Argument != tc.argument {
			t.Errorf("%s: Wrap panicked with %v", name, got)
		}
	}
	without, err := idempotency.New(f.store, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var invalid *idempotency.InvalidError
	if err := without.Check(idempotency.Idempotent(idempotency.Policy{})); !errors.As(err, &invalid) || invalid.Argument != "Policy.Caller" {
		t.Errorf("a route without caller and address: %v", err)
	}
	if err := without.Check(idempotency.Idempotent(idempotency.Policy{ClientAddress: idempotency.RemoteAddress})); err != nil {
		t.Errorf("a route with an address: %v", err)
	}
	if got := recovered(func() { g.Wrap(idempotency.Idempotent(idempotency.Policy{}), nil) }); got == nil {
		t.Error("Wrap took a nil handler")
	}
	if _, err := idempotency.New(nil, nil, nil); !errors.As(err, &invalid) {
		t.Errorf("New without a store: %v", err)
	}
	if _, err := idempotency.New(f.store, nil, &idempotency.Options{PolicyLink: "https://example.com/#x"}); !errors.As(err, &invalid) {
		t.Errorf("New with a fragment in the link: %v", err)
	}
	if _, err := idempotency.New(f.store, nil, &idempotency.Options{StoreTimeout: -1}); !errors.As(err, &invalid) {
		t.Errorf("New with a negative time-out: %v", err)
	}
}

func recovered(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

func TestMux(t *testing.T) {
	f := newFixture(t)
	mux := f.guard(f.client(), nil).NewMux()
	var calls atomic.Int64
	mux.HandleFunc("POST /orders/{id}", idempotency.Idempotent(idempotency.Policy{Retention: time.Hour}), counting(&calls))
	mux.Handle("POST /tokens", idempotency.NonIdempotent("a replayed token may have been rotated away"), counting(&calls))
	mux.HandleSafe("GET /orders/{id}", counting(&calls))
	for name, register := range map[string]func(){
		"a declaration for GET":    func() { mux.HandleFunc("GET /x", idempotency.NonIdempotent("it cannot be repeated"), counting(&calls)) },
		"POST without declaration": func() { mux.HandleSafe("POST /x", counting(&calls)) },
		"every method undeclared":  func() { mux.HandleSafe("/x", counting(&calls)) },
		"the zero declaration":     func() { mux.HandleFunc("POST /x", idempotency.Declaration{}, counting(&calls)) },
		"no handler":               func() { mux.HandleFunc("POST /x", idempotency.Idempotent(idempotency.Policy{}), nil) },
	} {
		var invalid *idempotency.InvalidError
		if err, ok := recovered(register).(error); !ok || !errors.As(err, &invalid) {
			t.Errorf("%s: panic is %v, want an *InvalidError", name, err)
		}
	}
	want := []idempotency.Route{
		{Pattern: "GET /orders/{id}", Intent: "safe"},
		{Pattern: "POST /orders/{id}", Intent: "idempotent", Retention: time.Hour},
		{Pattern: "POST /tokens", Intent: "non-idempotent", Reason: "a replayed token may have been rotated away"},
	}
	routes := mux.Routes()
	if len(routes) != len(want) {
		t.Fatalf("routes are %+v", routes)
	}
	for i := range want {
		if routes[i] != want[i] {
			t.Errorf("route %d is %+v, want %+v", i, routes[i], want[i])
		}
	}
}

func TestRouteWithoutANameIsRefused(t *testing.T) {
	f := newFixture(t)
	calls := 0
	server := f.serve(f.guard(f.client(), nil).Wrap(idempotency.Idempotent(idempotency.Policy{}), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ })))
	order().send(t, server).want(t, http.StatusInternalServerError, idempotency.CodeRouteUnknown)
	if calls != 0 {
		t.Error("the handler ran")
	}
}
