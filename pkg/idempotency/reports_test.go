// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/memstore"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// The tests of the files reports_*_test.go are named after faults that were reported of other libraries; docs/idempotency.md lists them.

func TestReport01DisconnectKeepsTheRecord(t *testing.T) {
	f := newFixture(t)
	entered, gone, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var calls atomic.Int64
	policy := idempotency.Policy{Wait: patience}
	handler := func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		close(entered)
		<-gone
		ended <- r.Context().Err()
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "done")
	}
	// The outer handler knows when the server has noticed that the client left.
	mux := f.guard(f.client(), nil).NewMux()
	mux.HandleFunc("POST /orders/{id}", idempotency.Idempotent(policy), handler)
	server := f.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Leaves") != "" {
			context.AfterFunc(r.Context(), func() { close(gone) })
		}
		mux.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		r := order()
		r.header = http.Header{"X-Leaves": {"yes"}}
		_, err := r.try(ctx, server)
		left <- err
	}()
	await(t, "the request", entered)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("the client ended with %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the context of the handler ended with the client: %v", err)
	}
	if a := order().send(t, server); !a.replayed() || a.body != "done" || calls.Load() != 1 {
		t.Errorf("the repeat got %+v after %d calls", a, calls.Load())
	}
}

// keySpy learns key and fingerprint of the last claim.
type keySpy struct {
	idempotency.Store
	key         idempotency.Key
	fingerprint idempotency.Fingerprint
}

func (s *keySpy) Begin(ctx context.Context, key idempotency.Key, claim idempotency.Claim) (idempotency.Record, error) {
	s.key, s.fingerprint = key, claim.Fingerprint
	return s.Store.Begin(ctx, key, claim)
}

func TestReport02OrphanEndsWithItsLeaseAndNotWithTheRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mustMemstore(t, &memstore.Options{Clock: clock.Monotonic()})
		spy := &keySpy{Store: store}
		h, calls := stripedHandler(t, spy, idempotency.Policy{})
		// A first request fails and frees its key; now the record of one that died is put there.
		serveOnce(h, http.Header{"X-Fail": {"500"}}, "body")
		dead := idempotency.Claim{Ownership: idempotency.Ownership{Owner: "dead"}, Fingerprint: spy.fingerprint, Lease: 30 * time.Second, Retention: 24 * time.Hour}
		if _, err := store.Begin(t.Context(), spy.key, dead); err != nil {
			t.Fatal(err)
		}
		a := serveOnce(h, nil, "body")
		a.want(t, http.StatusConflict, idempotency.CodeInFlight)
		if a.header.Get("Retry-After") != "30" {
			t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
		}
		time.Sleep(30 * time.Second) //nolint:forbidigo // The time of a synctest bubble.
		if a := serveOnce(h, nil, "body"); a.status != http.StatusCreated || calls.Load() != 2 {
			t.Errorf("after the lease the repeat got %+v after %d calls", a, calls.Load())
		}
	})
}

func TestReport03LeaseOutlivesASlowHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mustMemstore(t, &memstore.Options{Clock: clock.Monotonic()})
		spy := &keySpy{Store: store}
		h, calls := stripedHandler(t, spy, idempotency.Policy{TTL: 10 * time.Second})
		done := make(chan answer, 1)
		go func() { done <- serveOnce(h, http.Header{"X-Sleep": {"60s"}}, "body") }()
		time.Sleep(59 * time.Second) //nolint:forbidigo // The time of a synctest bubble.
		r, err := store.Get(t.Context(), spy.key)
		if err != nil || r.State != idempotency.InFlight || r.Expired {
			t.Errorf("after 59 s of a 10 s lease the record is %+v, %v", r, err)
		}
		if a := <-done; a.status != http.StatusCreated || a.header.Get("X-Idempotent-Degraded") != "" || calls.Load() != 1 {
			t.Errorf("the slow request got %+v", a)
		}
		if a := serveOnce(h, http.Header{"X-Sleep": {"60s"}}, "body"); !a.replayed() {
			t.Errorf("the repeat got %+v", a)
		}
	})
}

func TestReport04LateCommitDoesNotOverwriteTheNewOwner(t *testing.T) {
	f := newFixture(t)
	var key idempotency.Key
	spy := &keySpy{Store: f.store.Store}
	f.store.Store = spy
	server := f.replica(idempotency.Policy{}, func(w http.ResponseWriter, _ *http.Request) {
		// Somebody removes the record, and another execution takes the key: this one was stopped for long.
		key = spy.key
		record, err := spy.Store.Get(t.Context(), key)
		if err == nil {
			err = spy.Store.Abort(t.Context(), key, record.Ownership)
		}
		if err == nil {
			_, err = spy.Store.Begin(t.Context(), key, idempotency.Claim{
				Ownership: idempotency.Ownership{Owner: "new", Token: lock.Token{Epoch: 9}}, Fingerprint: spy.fingerprint, Lease: time.Hour, Retention: time.Hour,
			})
		}
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusCreated)
	})
	a := order().send(t, server)
	if a.status != http.StatusCreated || a.header.Get("X-Idempotent-Degraded") != string(idempotency.ReasonClaimLost) {
		t.Errorf("the stale execution answered %+v, want its own answer, marked", a)
	}
	if r, err := spy.Store.Get(t.Context(), key); err != nil || r.State != idempotency.InFlight || r.Owner != "new" {
		t.Errorf("the record is %+v, %v, want that of the new owner", r, err)
	}
}

func TestReport05WaiterReadsAgainBeforeItExecutes(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{Wait: patience}, counting(&calls))
	// Whoever holds the lock stores an answer and lets go: the waiter's first look found nothing, its second finds it.
	holder, fingerprint := f.client(), fingerprintSpy(t, order())
	store := f.store.Store
	reached := make(chan struct{})
	f.store.Store = &lookSpy{Store: store, after: func(key idempotency.Key) {
		h, err := holder.TryAcquire(t.Context(), lock.Key("idempotency", key.String()), time.Minute, 0)
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			defer close(reached)
			// By now the waiter has looked. The holder's answer goes to the record that the waiter will find.
			claim := idempotency.Claim{Ownership: idempotency.Ownership{Owner: "holder", Token: h.Token()}, Fingerprint: fingerprint, Lease: time.Minute, Retention: time.Hour}
			if _, err := store.Begin(t.Context(), key, claim); err != nil {
				t.Error(err)
			}
			if err := store.Complete(t.Context(), key, claim.Ownership, idempotency.Result{State: idempotency.Tombstone, Retention: time.Hour}); err != nil {
				t.Error(err)
			}
			_ = h.Release(t.Context())
		}()
	}}
	order().send(t, server).want(t, http.StatusConflict, idempotency.CodeResponseUnavailable)
	await(t, "the holder", reached)
	if calls.Load() != 0 {
		t.Error("the waiter executed the request again")
	}
}

// fingerprintSpy learns the fingerprint of a request from another fixture.
func fingerprintSpy(t *testing.T, r request) idempotency.Fingerprint {
	t.Helper()
	f := newFixture(t)
	spy := &keySpy{Store: f.store.Store}
	f.store.Store = spy
	server := f.replica(idempotency.Policy{}, func(http.ResponseWriter, *http.Request) {})
	r.send(t, server)
	return spy.fingerprint
}

// lookSpy calls after once, after the first look at a record.
type lookSpy struct {
	idempotency.Store
	after func(idempotency.Key)
	once  atomic.Bool
}

func (s *lookSpy) Get(ctx context.Context, key idempotency.Key) (idempotency.Record, error) {
	r, err := s.Store.Get(ctx, key)
	if s.once.CompareAndSwap(false, true) {
		s.after(key)
	}
	return r, err
}

func TestReport07FingerprintIsCheckedOnEveryPath(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{MaxResponse: 3, StoreStatuses: []int{404}}, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get("X-Big") != "" {
			_, _ = io.WriteString(w, "more than is kept")
		}
	})
	for name, header := range map[string]http.Header{"done": nil, "tombstone": {"X-Big": {"yes"}}} {
		r := order()
		r.key, r.header = name, header
		first := r.send(t, server)
		if first.status != http.StatusOK {
			t.Fatalf("%s: %+v", name, first)
		}
		other := r
		other.body = "other"
		other.send(t, server).want(t, http.StatusUnprocessableEntity, idempotency.CodeMismatch)
		// The mismatch has not touched the record.
		if again := r.send(t, server); !again.replayed() {
			t.Errorf("%s: the repeat got %+v", name, again)
		}
	}
	if calls.Load() != 2 {
		t.Errorf("%d calls, want 2", calls.Load())
	}
}

func TestReport08EveryBodyCounts(t *testing.T) {
	big := strings.Repeat("x", 100<<10)
	seen := map[idempotency.Fingerprint]string{}
	for name, body := range map[string]string{
		"empty": "", "one": "1", "two": "2", "30 KB and more": big, "30 KB and another end": big[:len(big)-1] + "y", "binary": "\x00\x01", "binary zero": "\x00",
	} {
		r := order()
		r.body = body
		fingerprint := fingerprintSpy(t, r)
		if other, ok := seen[fingerprint]; ok {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}
		seen[fingerprint] = name
		if again := fingerprintSpy(t, r); again != fingerprint {
			t.Errorf("%s has two fingerprints", name)
		}
	}
}

func TestReport09NobodyGetsTheAnswerOfAnother(t *testing.T) {
	f := newFixture(t)
	options := f.options()
	options.ClientAddress = func(r *http.Request) string { return r.Header.Get("X-Address") }
	mux := f.guard(f.client(), options).NewMux()
	var calls atomic.Int64
	mux.HandleFunc("POST /orders/{id}", idempotency.Idempotent(idempotency.Policy{}), counting(&calls))
	server := f.serve(mux)
	ann, bob, address := order(), order(), order()
	bob.user = "bob"
	address.user, address.header = "", http.Header{"X-Address": {"ann"}} // An address that reads like a name.
	for i, r := range []request{ann, bob, address} {
		if a := r.send(t, server); a.replayed() || a.status != http.StatusCreated || calls.Load() != int64(i+1) {
			t.Errorf("request %d got %+v after %d calls, want an execution of its own", i, a, calls.Load())
		}
	}
	nobody := order()
	nobody.user = ""
	nobody.send(t, server).want(t, http.StatusBadRequest, idempotency.CodeSubjectUnknown)
}

func TestReport10ConcretePathAndRouteCount(t *testing.T) {
	f := newFixture(t)
	mux := f.guard(f.client(), nil).NewMux()
	var calls atomic.Int64
	mux.HandleFunc("POST /tickets/{id}/close", idempotency.Idempotent(idempotency.Policy{}), counting(&calls))
	mux.HandleFunc("POST /tickets/{id}/open", idempotency.Idempotent(idempotency.Policy{}), counting(&calls))
	server := f.serve(mux)
	one := request{path: "/tickets/1/close", key: "k", user: "ann"}
	if a := one.send(t, server); a.status != http.StatusCreated {
		t.Fatalf("%+v", a)
	}
	two := one
	two.path = "/tickets/2/close"
	two.send(t, server).want(t, http.StatusUnprocessableEntity, idempotency.CodeMismatch)
	// Another route is another operation, with keys of its own.
	other := one
	other.path = "/tickets/1/open"
	if a := other.send(t, server); a.replayed() || calls.Load() != 2 {
		t.Errorf("the other route got %+v after %d calls", a, calls.Load())
	}
}

func TestReport11QueryCountsAndItsOrderDoesNot(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{}, counting(&calls))
	r := order()
	r.path = "/orders/1?dry=true&to=a&to=b"
	r.send(t, server)
	for path, same := range map[string]bool{
		"/orders/1?to=a&to=b&dry=true": true, "/orders/1?to=a&dry=true&to=b": true,
		"/orders/1?to=b&to=a&dry=true": false, "/orders/1?dry=false&to=a&to=b": false, "/orders/1": false,
	} {
		again := r
		again.path = path
		a := again.send(t, server)
		if same && !a.replayed() {
			t.Errorf("%s: got %+v, want a replay", path, a)
		}
		if !same {
			a.want(t, http.StatusUnprocessableEntity, idempotency.CodeMismatch)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls", calls.Load())
	}
}

func TestReport12MultipartIsTakenByItsParts(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{}, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.FormValue("name") == "" {
			t.Error("the handler cannot read the form")
		}
		w.WriteHeader(http.StatusCreated)
	})
	build := func(name, file string) request {
		var body bytes.Buffer
		form := multipart.NewWriter(&body) // It has a random boundary.
		_ = form.WriteField("name", name)
		part, _ := form.CreateFormFile("file", "a.txt")
		_, _ = io.WriteString(part, file)
		_ = form.Close()
		r := order()
		r.body, r.header = body.String(), http.Header{"Content-Type": {form.FormDataContentType()}}
		return r
	}
	build("ann", "content").send(t, server)
	if a := build("ann", "content").send(t, server); !a.replayed() {
		t.Errorf("the same parts got %+v", a)
	}
	build("ann", "other").send(t, server).want(t, http.StatusUnprocessableEntity, idempotency.CodeMismatch)
	build("bob", "content").send(t, server).want(t, http.StatusUnprocessableEntity, idempotency.CodeMismatch)
	if calls.Load() != 1 {
		t.Errorf("%d calls", calls.Load())
	}
}
