// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/memstore"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

// patience is far longer than any healthy step takes.
const patience = 30 * time.Second

// fixture is one application: its store, its lock, and a real server for each replica.
type fixture struct {
	t     *testing.T
	store *switchStore
	locks *memlock.Driver

	mu       sync.Mutex
	answered []idempotency.AnsweredEvent
	degraded []idempotency.DegradedEvent
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store, err := memstore.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t: t, store: &switchStore{Store: store}, locks: memlock.New(nil)}
}

// client is the lock client of a replica.
func (f *fixture) client() *lock.Client {
	f.t.Helper()
	client, err := lock.New(f.locks, "app:", &lock.Options{Logger: slog.New(slog.NewTextHandler(f.t.Output(), nil))})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := client.Close(ctx); err != nil {
			f.t.Errorf("close of the lock client: %v", err)
		}
	})
	return client
}

// options know the caller by the header X-User.
func (f *fixture) options() *idempotency.Options {
	return &idempotency.Options{
		Caller: func(r *http.Request) string { return r.Header.Get("X-User") },
		Logger: slog.New(slog.NewTextHandler(f.t.Output(), nil)),
		Observer: &idempotency.Observer{
			Answered: func(_ context.Context, e idempotency.AnsweredEvent) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.answered = append(f.answered, e)
			},
			Degraded: func(_ context.Context, e idempotency.DegradedEvent) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.degraded = append(f.degraded, e)
			},
		},
	}
}

func (f *fixture) guard(client *lock.Client, options *idempotency.Options) *idempotency.Guard {
	f.t.Helper()
	if options == nil {
		options = f.options()
	}
	g, err := idempotency.New(f.store, client, options)
	if err != nil {
		f.t.Fatal(err)
	}
	return g
}

// replica serves one idempotent route, POST /orders/{id}, on a server and a lock client of its own.
func (f *fixture) replica(policy idempotency.Policy, h http.HandlerFunc) *httptest.Server {
	f.t.Helper()
	mux := f.guard(f.client(), nil).NewMux()
	mux.HandleFunc("POST /orders/{id}", idempotency.Idempotent(policy), h)
	return f.serve(mux)
}

func (f *fixture) serve(h http.Handler) *httptest.Server {
	f.t.Helper()
	var running sync.WaitGroup
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Done()
		h.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(f.t.Output(), nil), slog.LevelWarn)
	server.Start()
	f.t.Cleanup(func() {
		server.Close()
		running.Wait() // Close does not wait for a handler that has hijacked its connection.
	})
	return server
}

// reasons are those of the degraded events so far.
func (f *fixture) reasons() (reasons []idempotency.Reason) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.degraded {
		reasons = append(reasons, e.Reason)
	}
	return reasons
}

// answer is what a client got.
type answer struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
}

func (a answer) replayed() bool { return a.header.Get("X-Idempotent-Replay") == "true" }

type request struct {
	path, key, user, body string
	header                http.Header
}

// order is the request that most tests repeat.
func order() request { return request{path: "/orders/1", key: "k1", user: "ann", body: `{"n":1}`} }

func (r request) build(ctx context.Context, server *httptest.Server) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+r.path, strings.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, r.header)
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	if r.user != "" {
		req.Header.Set("X-User", r.user)
	}
	return req, nil
}

func (r request) try(ctx context.Context, server *httptest.Server) (answer, error) {
	req, err := r.build(ctx, server)
	if err != nil {
		return answer{}, err
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, resp.Trailer, string(body)}, err
}

func (r request) send(t *testing.T, server *httptest.Server) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := r.try(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// want fails unless the answer is a problem with the code.
func (a answer) want(t *testing.T, status int, code idempotency.Code) {
	t.Helper()
	if a.status != status || a.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(a.body, `"code":"`+string(code)+`"`) {
		t.Errorf("answer is %d (%s) %s, want %d with code %s", a.status, a.header.Get("Content-Type"), a.body, status, code)
	}
}

// counting is a handler that answers 201 with the number of the call.
func counting(calls *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		w.Header().Set("Location", "/orders/"+r.PathValue("id"))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "call "+string(rune('0'+n)))
	}
}

func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("%s did not happen within %s", what, patience)
	}
}

// errDown is what a switchStore answers while it is off.
var errDown = errors.New("the store is down")

// switchStore is a store whose steps can be made to fail, and are counted.
type switchStore struct {
	idempotency.Store
	getDown, beginDown, completeDown, abortDown, extendDown atomic.Bool
	// beginApplies makes a failing Begin apply the claim all the same: an answer that was lost.
	beginApplies                             atomic.Bool
	gets, begins, completes, aborts, extends atomic.Int64
	// onComplete is called before a Complete.
	onComplete atomic.Pointer[func()]
	// beginFull and completeFull are from which size of a response, in bytes, the store has no room: any, for Begin. 0 is that it has.
	beginFull, completeFull atomic.Int64
}

// errFull is what a switchStore without room answers.
var errFull = &idempotency.StoreFullError{Used: 90, Share: 100, Remedy: "raise the share"}

func (s *switchStore) off(down bool) {
	for _, step := range []*atomic.Bool{&s.getDown, &s.beginDown, &s.completeDown, &s.abortDown, &s.extendDown} {
		step.Store(down)
	}
}

func (s *switchStore) calls() int64 {
	return s.gets.Load() + s.begins.Load() + s.completes.Load() + s.aborts.Load() + s.extends.Load()
}

func (s *switchStore) Get(ctx context.Context, key idempotency.Key) (idempotency.Record, error) {
	s.gets.Add(1)
	if s.getDown.Load() {
		return idempotency.Record{}, errDown
	}
	return s.Store.Get(ctx, key)
}

func (s *switchStore) Begin(ctx context.Context, key idempotency.Key, claim idempotency.Claim) (idempotency.Record, error) {
	s.begins.Add(1)
	if s.beginDown.Load() {
		if s.beginApplies.Load() {
			_, _ = s.Store.Begin(ctx, key, claim)
		}
		return idempotency.Record{}, errDown
	}
	if s.beginFull.Load() > 0 {
		return idempotency.Record{}, errFull
	}
	return s.Store.Begin(ctx, key, claim)
}

func (s *switchStore) Complete(ctx context.Context, key idempotency.Key, owner idempotency.Ownership, result idempotency.Result) error {
	s.completes.Add(1)
	if hook := s.onComplete.Load(); hook != nil {
		(*hook)()
	}
	if s.completeDown.Load() {
		return errDown
	}
	if from := s.completeFull.Load(); from > 0 && int64(len(result.Response)) >= from {
		return errFull
	}
	return s.Store.Complete(ctx, key, owner, result)
}

func (s *switchStore) Abort(ctx context.Context, key idempotency.Key, owner idempotency.Ownership) error {
	s.aborts.Add(1)
	if s.abortDown.Load() {
		return errDown
	}
	return s.Store.Abort(ctx, key, owner)
}

func (s *switchStore) Extend(ctx context.Context, key idempotency.Key, owner idempotency.Ownership, lease time.Duration) error {
	s.extends.Add(1)
	if s.extendDown.Load() {
		return errDown
	}
	return s.Store.Extend(ctx, key, owner, lease)
}
