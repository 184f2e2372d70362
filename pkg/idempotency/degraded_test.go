// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/memstore"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
)

func TestStoreDownFailsOpenAndSaysSo(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	// The commit is to give up at once.
	options := f.options()
	options.CommitTimeout = time.Millisecond
	mux := f.guard(f.client(), options).NewMux()
	mux.HandleFunc("POST /orders/{id}", idempotency.Idempotent(idempotency.Policy{}), counting(&calls))
	server := f.serve(mux)
	f.store.off(true)
	for want := int64(1); want <= 2; want++ {
		a := order().send(t, server)
		if a.status != http.StatusCreated || calls.Load() != want || !slices.Equal(a.header["X-Idempotent-Degraded"], []string{"store", "commit"}) {
			t.Errorf("with the store down the answer is %+v after %d calls", a, calls.Load())
		}
	}
	if got := f.reasons(); !slices.Equal(got, []idempotency.Reason{"store", "commit", "store", "commit"}) {
		t.Errorf("degraded for %v", got)
	}
	f.store.off(false)
	if a := order().send(t, server); a.status != http.StatusCreated || a.header.Get("X-Idempotent-Degraded") != "" {
		t.Errorf("with the store back the answer is %+v", a)
	}
	if a := order().send(t, server); !a.replayed() || calls.Load() != 3 {
		t.Errorf("the repeat got %+v after %d calls", a, calls.Load())
	}
}

func TestFullStoreIsNotWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		policy             idempotency.Policy
		begin, complete    int64
		status             int
		reason, repeat     string
		calls, repeatCalls int64
	}{
		"before the handler, open":             {idempotency.Policy{}, 1, 1, 201, "store-full", "executed", 1, 2},
		"before the handler, closed":           {idempotency.Policy{FailClosed: true}, 1, 1, 503, "store-full", "executed", 0, 1},
		"after the handler, with its header":   {idempotency.Policy{}, 0, 20, 201, "store-full", "buried", 1, 1},
		"after the handler, but for a status":  {idempotency.Policy{FailClosed: true}, 0, 10, 201, "store-full", "buried", 1, 1},
		"after the handler, against any claim": {idempotency.Policy{}, 0, 1, 201, "store-full", "in flight", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var calls atomic.Int64
			tc.policy.Wait = time.Millisecond
			server := f.replica(tc.policy, counting(&calls))
			f.store.beginFull.Store(tc.begin)
			f.store.completeFull.Store(tc.complete)
			if a := order().send(t, server); a.status != tc.status || !slices.Equal(a.header["X-Idempotent-Degraded"], []string{tc.reason}) || calls.Load() != tc.calls {
				t.Errorf("the answer is %+v after %d calls", a, calls.Load())
			}
			if n := f.store.completes.Load(); n > 3 {
				t.Errorf("%d attempts to store the answer: a full store is not to be waited for", n)
			}
			for _, e := range f.degraded {
				if !errors.Is(e.Err, idempotency.ErrStoreFull) || !strings.Contains(e.Err.Error(), "raise the share") {
					t.Errorf("degraded for %v", e.Err)
				}
			}
			f.store.beginFull.Store(0)
			f.store.completeFull.Store(0)
			switch a := order().send(t, server); tc.repeat {
			case "executed":
				if a.status != http.StatusCreated || a.replayed() {
					t.Errorf("the repeat got %+v", a)
				}
			case "buried":
				a.want(t, http.StatusConflict, idempotency.CodeResponseUnavailable)
			case "in flight":
				a.want(t, http.StatusConflict, idempotency.CodeInFlight)
			}
			if calls.Load() != tc.repeatCalls {
				t.Errorf("%d calls", calls.Load())
			}
		})
	}
}

func TestStoreThatComesBackDuringTheWorkKeepsTheAnswer(t *testing.T) {
	for name, applies := range map[string]bool{"the claim was not applied": false, "the claim was applied and its answer lost": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var calls atomic.Int64
			server := f.replica(idempotency.Policy{}, func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				f.store.off(false)
				w.WriteHeader(http.StatusCreated)
			})
			f.store.off(true)
			f.store.beginApplies.Store(applies)
			if a := order().send(t, server); a.header.Get("X-Idempotent-Degraded") != "store" || a.status != http.StatusCreated {
				t.Errorf("the first got %+v", a)
			}
			if a := order().send(t, server); !a.replayed() || calls.Load() != 1 {
				t.Errorf("the repeat got %+v after %d calls", a, calls.Load())
			}
		})
	}
}

func TestFailClosed(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{FailClosed: true}, counting(&calls))
	f.store.off(true)
	a := order().send(t, server)
	a.want(t, http.StatusServiceUnavailable, idempotency.CodeGuardUnavailable)
	if a.header.Get("Retry-After") != "1" || calls.Load() != 0 {
		t.Errorf("Retry-After is %q, %d calls", a.header.Get("Retry-After"), calls.Load())
	}
	f.store.off(false)
	if a := order().send(t, server); a.status != http.StatusCreated {
		t.Errorf("with the store back: %+v", a)
	}
	// The effect is done: a commit that fails does not hide the answer.
	options := f.options()
	options.CommitTimeout = time.Millisecond
	mux := f.guard(f.client(), options).NewMux()
	mux.HandleFunc("POST /orders/{id}", idempotency.Idempotent(idempotency.Policy{FailClosed: true}), counting(&calls))
	f.store.completeDown.Store(true)
	r := order()
	r.key = "k2"
	if a := r.send(t, f.serve(mux)); a.status != http.StatusCreated || a.header.Get("X-Idempotent-Degraded") != "commit" {
		t.Errorf("with a failing commit: %+v", a)
	}
}

func TestCommitIsTriedAgain(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{}, counting(&calls))
	f.store.completeDown.Store(true)
	again := func() {
		if f.store.completes.Load() == 3 {
			f.store.completeDown.Store(false)
		}
	}
	f.store.onComplete.Store(&again)
	if a := order().send(t, server); a.status != http.StatusCreated || a.header.Get("X-Idempotent-Degraded") != "" {
		t.Errorf("%+v", a)
	}
	if a := order().send(t, server); !a.replayed() || f.store.completes.Load() != 3 {
		t.Errorf("%+v after %d attempts", a, f.store.completes.Load())
	}
}

func TestLockDownTheRecordStillGuards(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	faulty, fault := locktest.Interpose(f.locks)
	client, err := lock.New(faulty, "app:", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
	mux := f.guard(client, nil).NewMux()
	mux.HandleFunc("POST /orders/{id}", idempotency.Idempotent(idempotency.Policy{}), counting(&calls))
	mux.HandleFunc("POST /money/{id}", idempotency.Idempotent(idempotency.Policy{FailClosed: true}), counting(&calls))
	server := f.serve(mux)
	fault.Refuse()
	if a := order().send(t, server); a.status != http.StatusCreated || a.header.Get("X-Idempotent-Degraded") != "lock" {
		t.Errorf("with the lock down: %+v", a)
	}
	if a := order().send(t, server); !a.replayed() || calls.Load() != 1 {
		t.Errorf("the repeat got %+v after %d calls", a, calls.Load())
	}
	r := order()
	r.path = "/money/1"
	r.send(t, server).want(t, http.StatusServiceUnavailable, idempotency.CodeGuardUnavailable)
	if calls.Load() != 1 || !slices.Equal(f.reasons(), []idempotency.Reason{"lock", "lock"}) {
		t.Errorf("%d calls, degraded for %v", calls.Load(), f.reasons())
	}
}

func TestUnreadableAnswerIsNotExecutedAgain(t *testing.T) {
	f := newFixture(t)
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{}, counting(&calls))
	f.store.Store = damaging{f.store.Store}
	order().send(t, server)
	a := order().send(t, server)
	a.want(t, http.StatusConflict, idempotency.CodeResponseUnavailable)
	if a.header.Get("X-Idempotent-Degraded") != "corrupt" || calls.Load() != 1 {
		t.Errorf("%+v after %d calls", a, calls.Load())
	}
}

// damaging cuts what it stores in half.
type damaging struct{ idempotency.Store }

func (d damaging) Complete(ctx context.Context, key idempotency.Key, owner idempotency.Ownership, result idempotency.Result) error {
	result.Response = result.Response[:len(result.Response)/2]
	return d.Store.Complete(ctx, key, owner, result)
}

func TestAnswerThatTheStoreRefusesIsATombstone(t *testing.T) {
	f := newFixture(t)
	f.store.Store = mustMemstore(t, &memstore.Options{MaxBytes: 200})
	var calls atomic.Int64
	server := f.replica(idempotency.Policy{}, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		_, _ = w.Write([]byte(strings.Repeat("x", 300)))
	})
	if a := order().send(t, server); len(a.body) != 300 || a.header.Get("X-Idempotent-Degraded") != "" {
		t.Errorf("the first got %+v", a)
	}
	order().send(t, server).want(t, http.StatusConflict, idempotency.CodeResponseUnavailable)
	if calls.Load() != 1 {
		t.Errorf("%d calls", calls.Load())
	}
}

func TestWithoutALockItSaysSoOnceAndWaitsAsLongAsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		g, err := idempotency.New(mustMemstore(t, &memstore.Options{Clock: clock.Monotonic()}), nil, &idempotency.Options{
			ClientAddress: idempotency.RemoteAddress, Clock: clock.Monotonic(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		h := g.Wrap(idempotency.Idempotent(idempotency.Policy{Route: "/", Wait: time.Second, MaxExecution: time.Hour}), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			calls++
			pause := time.NewTimer(10 * time.Minute)
			<-pause.C
		}))
		answers := make(chan answer, 2)
		for range 2 {
			go func() { answers <- serveOnce(h, nil, "body") }()
		}
		replays := 0
		for range 2 {
			a := <-answers
			if a.status != http.StatusOK {
				t.Errorf("%+v", a)
			}
			if a.replayed() {
				replays++
			}
		}
		if calls != 1 || replays != 1 {
			t.Errorf("%d calls and %d replays", calls, replays)
		}
		if n := strings.Count(log.String(), "no lock that all replicas see"); n != 1 {
			t.Errorf("said %d times:\n%s", n, log.String())
		}
	})
}

func TestExecutionEndsAfterItsMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mustMemstore(t, &memstore.Options{Clock: clock.Monotonic()})
		h, _ := stripedHandler(t, store, idempotency.Policy{MaxExecution: time.Minute})
		began := time.Now()
		if a := serveOnce(h, http.Header{"X-Sleep": {"1h"}}, "body"); a.status != http.StatusServiceUnavailable {
			t.Errorf("%+v", a)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

// staleStore answers Begin with a fault, and only when a time has passed: the process, or the way to the store, stood still.
type staleStore struct {
	idempotency.Store
	after time.Duration
}

func (s staleStore) Begin(context.Context, idempotency.Key, idempotency.Claim) (idempotency.Record, error) {
	<-time.NewTimer(s.after).C
	return idempotency.Record{}, errDown
}

// A process that was stopped until its lock was over, and has no record either, is guarded by nothing: somebody else may be executing.
func TestNothingIsExecutedWhenTheLockIsOverBeforeTheStoreFailed(t *testing.T) {
	for after, want := range map[time.Duration]int{time.Second: http.StatusCreated, 2 * time.Minute: http.StatusServiceUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			store := staleStore{mustMemstore(t, &memstore.Options{Clock: clock.Monotonic()}), after}
			h, calls := stripedHandler(t, store, idempotency.Policy{MaxExecution: time.Minute})
			a := serveOnce(h, nil, "body")
			if executed := calls.Load() > 0; a.status != want || executed != (want == http.StatusCreated) || !slices.Contains(a.header["X-Idempotent-Degraded"], "store") {
				t.Errorf("after %s the answer is %+v and %d executions", after, a, calls.Load())
			}
			if want == http.StatusServiceUnavailable {
				a.want(t, want, idempotency.CodeGuardUnavailable)
			}
		})
	}
}
