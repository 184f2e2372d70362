// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotencywindow_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/examples/uses/idempotencywindow"
	"github.com/lockstead/lockstead/examples/uses/replicatest"
	"github.com/lockstead/lockstead/pkg/lock"
)

func TestMain(m *testing.M) { replicatest.Main(m, nil) }

// shop is what the replicas share: the answers, and the payments that the provider was asked for.
type shop struct {
	mu       sync.Mutex
	answers  map[string]idempotencywindow.Answer
	payments int
	lastKey  string
	// paying is called in the middle of a payment. Nil does nothing.
	paying func(ctx context.Context) error
}

func newShop() *shop { return &shop{answers: make(map[string]idempotencywindow.Answer)} }

func (s *shop) Find(_ context.Context, key string) (idempotencywindow.Answer, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastKey = key
	a, ok := s.answers[key]
	return a, ok, nil
}

func (s *shop) StoreFirst(ctx context.Context, key string, a idempotencywindow.Answer) (idempotencywindow.Answer, error) {
	if err := ctx.Err(); err != nil {
		return a, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.answers[key]; ok {
		return first, nil
	}
	s.answers[key] = a
	return a, nil
}

func (s *shop) pay(ctx context.Context, caller string, body []byte) (idempotencywindow.Answer, error) {
	s.mu.Lock()
	s.payments++
	id := s.payments
	s.mu.Unlock()
	if s.paying != nil {
		if err := s.paying(ctx); err != nil {
			return idempotencywindow.Answer{}, err
		}
	}
	if strings.Contains(string(body), "refused") {
		return idempotencywindow.Answer{Status: http.StatusPaymentRequired, ContentType: "text/plain", Body: []byte("no money")}, nil
	}
	return idempotencywindow.Answer{Status: http.StatusCreated, ContentType: "text/plain", Body: fmt.Appendf(nil, "payment %d of %s", id, caller)}, nil
}

func replica(t *testing.T, n *replicatest.Namespace, s *shop, options idempotencywindow.Options) http.Handler {
	t.Helper()
	options.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	caller := func(r *http.Request) string { return r.Header.Get("X-User") }
	return idempotencywindow.New(n.Open(t), s, caller, s.pay, &options)
}

func post(ctx context.Context, handler http.Handler, user, key, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/payments", strings.NewReader(body))
	request.Header.Set("X-User", user)
	request.Header.Set("Idempotency-Key", key)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

// Three replicas get the same request twelve times at once: one payment, and all are told of it.
func TestRepeatsPayOnceAndGetOneAnswer(t *testing.T) {
	ctx, n, s := replicatest.Context(t), replicatest.Start(t), newShop()
	gap := replicatest.NewGap()
	s.paying = func(context.Context) error {
		gap.Stay()
		return nil
	}
	patient := idempotencywindow.Options{Wait: replicatest.Patience}
	replicas := []http.Handler{replica(t, n, s, patient), replica(t, n, s, patient), replica(t, n, s, patient)}
	replays := 0
	for _, answer := range replicatest.AtOnce(12, func(i int) *httptest.ResponseRecorder {
		return post(ctx, replicas[i%len(replicas)], "ada", "k1", "10 EUR")
	}) {
		if answer.Code != http.StatusCreated || answer.Body.String() != "payment 1 of ada" {
			t.Errorf("answer %d %q", answer.Code, answer.Body)
		}
		if answer.Header().Get("X-Idempotent-Replay") == "true" {
			replays++
		}
	}
	if s.payments != 1 || replays != 11 {
		t.Errorf("%d payments, %d replays; want 1 and 11", s.payments, replays)
	}
	if answer := post(ctx, replicas[0], "grace", "k1", "10 EUR"); answer.Body.String() != "payment 2 of grace" {
		t.Errorf("another caller with the same key got %q", answer.Body)
	}
	if answer := post(ctx, replicas[1], "ada", "k1", "99 EUR"); answer.Code != http.StatusUnprocessableEntity {
		t.Errorf("the same key for another request: %d, want 422", answer.Code)
	}
}

// While the first request is being executed, a repeat gets 409 at the end of its wait, and does not execute.
func TestContentionAnswers409(t *testing.T) {
	ctx, n, s := replicatest.Context(t), replicatest.Start(t), newShop()
	inside, finish := make(chan struct{}), make(chan struct{})
	s.paying = func(context.Context) error {
		close(inside)
		<-finish
		return nil
	}
	first := make(chan *httptest.ResponseRecorder, 1)
	holder := replica(t, n, s, idempotencywindow.Options{})
	go func() { first <- post(ctx, holder, "ada", "k1", "10 EUR") }()
	<-inside
	repeat := post(ctx, replica(t, n, s, idempotencywindow.Options{Wait: 50 * time.Millisecond}), "ada", "k1", "10 EUR")
	close(finish)
	if repeat.Code != http.StatusConflict || repeat.Header().Get("Retry-After") == "" {
		t.Errorf("the repeat got %d, Retry-After %q", repeat.Code, repeat.Header().Get("Retry-After"))
	}
	if answer := <-first; answer.Code != http.StatusCreated || s.payments != 1 {
		t.Errorf("the first got %d, %d payments", answer.Code, s.payments)
	}
}

// A replica dies between locking and paying. A repeat executes when the TTL has run out.
func TestARepeatExecutesAfterTheHolderDied(t *testing.T) {
	ctx, n, s := replicatest.Context(t), replicatest.Start(t), newShop()
	handler := replica(t, n, s, idempotencywindow.Options{Wait: replicatest.Patience})
	n.Abandon(t, keyOf(ctx, t, n, s), time.Second)
	if answer := post(ctx, handler, "ada", "k1", "10 EUR"); answer.Code != http.StatusCreated || s.payments != 1 {
		t.Errorf("answer %d %q, %d payments", answer.Code, answer.Body, s.payments)
	}
}

// keyOf is the key of the lock of the request "k1" of ada, learned from a replica that gives up at once.
func keyOf(ctx context.Context, t *testing.T, n *replicatest.Namespace, s *shop) string {
	t.Helper()
	left, leave := context.WithCancel(ctx)
	leave()
	post(left, replica(t, n, s, idempotencywindow.Options{}), "ada", "k1", "10 EUR")
	return lock.Key("idempotency", s.lastKey)
}

// A client that leaves while its payment is made does not cut it off, and a repeat gets its answer.
func TestAClientThatLeavesGetsItsAnswerLater(t *testing.T) {
	ctx, n, s := replicatest.Context(t), replicatest.Start(t), newShop()
	handler := replica(t, n, s, idempotencywindow.Options{})
	leaving, leave := context.WithCancel(ctx)
	s.paying = func(ctx context.Context) error {
		leave()
		return ctx.Err()
	}
	post(leaving, handler, "ada", "k1", "10 EUR")
	answer := post(ctx, handler, "ada", "k1", "10 EUR")
	if answer.Body.String() != "payment 1 of ada" || answer.Header().Get("X-Idempotent-Replay") != "true" || s.payments != 1 {
		t.Errorf("the repeat got %d %q, %d payments", answer.Code, answer.Body, s.payments)
	}
}

// The action learns that its lock is gone. What it did before is its own to undo; nothing is stored.
func TestALostLockEndsTheAction(t *testing.T) {
	ctx, n, s := replicatest.Context(t), replicatest.Start(t), newShop()
	s.paying = func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	answer := post(ctx, replica(t, n, s, idempotencywindow.Options{TTL: time.Second}), "ada", "k1", "10 EUR")
	if answer.Code != http.StatusServiceUnavailable || len(s.answers) != 0 {
		t.Errorf("answer %d, stored %v", answer.Code, s.answers)
	}
}

// Two requests of one key executed after all, since the first lost its lock: whoever asks again sees one answer.
func TestTheFirstAnswerIsKept(t *testing.T) {
	ctx, n, s := replicatest.Context(t), replicatest.Start(t), newShop()
	one, two := replica(t, n, s, idempotencywindow.Options{}), replica(t, n, s, idempotencywindow.Options{})
	var second *httptest.ResponseRecorder
	s.paying = func(context.Context) error {
		if s.payments == 1 {
			n.Remove(t, lock.Key("idempotency", s.lastKey))
			second = post(ctx, two, "ada", "k1", "10 EUR")
		}
		return nil
	}
	first := post(ctx, one, "ada", "k1", "10 EUR")
	if s.payments != 2 || first.Body.String() != "payment 2 of ada" || second.Body.String() != first.Body.String() {
		t.Errorf("%d payments, answers %q and %q; want the one that was stored first for both", s.payments, first.Body, second.Body)
	}
}

// A refusal is not stored: the client may try again with the same key. A panic is not either, and releases.
func TestFailuresAreNotStored(t *testing.T) {
	ctx, n, s := replicatest.Context(t), replicatest.Start(t), newShop()
	handler := replica(t, n, s, idempotencywindow.Options{Wait: 50 * time.Millisecond})
	for range 2 {
		if answer := post(ctx, handler, "ada", "k1", "refused"); answer.Code != http.StatusPaymentRequired {
			t.Errorf("answer %d", answer.Code)
		}
	}
	s.paying = func(context.Context) error { panic("a fault of the action") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		post(ctx, handler, "ada", "k2", "10 EUR")
	}()
	s.paying = func(context.Context) error { return errors.New("provider is down") }
	if answer := post(ctx, handler, "ada", "k2", "10 EUR"); answer.Code != http.StatusServiceUnavailable {
		t.Errorf("after a panic: %d, want the action to have run again", answer.Code)
	}
	if s.payments != 4 || len(s.answers) != 0 {
		t.Errorf("%d calls of the action, stored %v", s.payments, s.answers)
	}
}

func TestNothingIsExecutedWhileTheStoreIsDown(t *testing.T) {
	ctx, n, s := replicatest.Context(t), replicatest.Start(t), newShop()
	handler := replica(t, n, s, idempotencywindow.Options{})
	n.Server.Kill(t)
	answer := post(ctx, handler, "ada", "k1", "10 EUR")
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" || s.payments != 0 {
		t.Errorf("answer %d, %d payments; want 503 with Retry-After", answer.Code, s.payments)
	}
}
