// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package bonusclaim_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/examples/uses/bonusclaim"
	"github.com/lockstead/lockstead/examples/uses/replicatest"
	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/memstore"
	"github.com/lockstead/lockstead/pkg/lock"
)

func TestMain(m *testing.M) { replicatest.Main(m, nil) }

// bank is what the replicas share: the payments, and the table of claims.
type bank struct {
	mu     sync.Mutex
	paid   int
	claims map[string]bool
	// paying is called in the middle of a payment. Nil does nothing.
	paying func()
}

func newBank() *bank { return &bank{claims: make(map[string]bool)} }

func (b *bank) Pay(context.Context, string, string) error {
	b.mu.Lock()
	b.paid++
	b.mu.Unlock()
	if b.paying != nil {
		b.paying()
	}
	return nil
}

func (b *bank) Has(_ context.Context, user, offer string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claims[user+"/"+offer], nil
}

func (b *bank) Insert(ctx context.Context, user, offer string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.claims[user+"/"+offer] {
		return bonusclaim.ErrClaimed
	}
	b.claims[user+"/"+offer] = true
	return nil
}

func replica(t *testing.T, n *replicatest.Namespace, b *bank) http.Handler {
	t.Helper()
	caller := func(r *http.Request) string { return r.Header.Get("X-User") }
	locks, log := n.Open(t), slog.New(slog.NewTextHandler(t.Output(), nil))
	store, err := memstore.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := idempotency.New(store, locks, &idempotency.Options{Caller: caller, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return bonusclaim.Handler(bonusclaim.New(locks, b, b, 30*time.Second), guard, caller, log)
}

func claim(ctx context.Context, handler http.Handler, offer string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/offers/"+offer+"/claim", nil)
	request.Header.Set("X-User", "ada")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

// Three replicas get twelve clicks at once: one bonus, and eleven conflicts.
func TestABonusIsPaidOnce(t *testing.T) {
	ctx, n, b := replicatest.Context(t), replicatest.Start(t), newBank()
	b.paying = replicatest.NewGap().Stay
	replicas := []http.Handler{replica(t, n, b), replica(t, n, b), replica(t, n, b)}
	count := make(map[int]int)
	for _, status := range replicatest.AtOnce(12, func(i int) int { return claim(ctx, replicas[i%len(replicas)], "o1").Code }) {
		count[status]++
	}
	if b.paid != 1 || count[http.StatusNoContent] != 1 || count[http.StatusConflict] != 11 {
		t.Errorf("paid %d times, answers %v", b.paid, count)
	}
	if answer := claim(ctx, replicas[0], "o2"); answer.Code != http.StatusNoContent || b.paid != 2 {
		t.Errorf("another offer: %d", answer.Code)
	}
}

// A click that comes while the bonus is being paid is told so at once, whatever the payer does.
func TestContentionAnswersAtOnce(t *testing.T) {
	ctx, n, b := replicatest.Context(t), replicatest.Start(t), newBank()
	inside, finish := make(chan struct{}), make(chan struct{})
	b.paying = func() {
		close(inside)
		<-finish
	}
	first := make(chan int, 1)
	one, two := replica(t, n, b), replica(t, n, b)
	go func() { first <- claim(ctx, one, "o1").Code }()
	<-inside
	second := claim(ctx, two, "o1")
	close(finish)
	if second.Code != http.StatusConflict || !strings.Contains(second.Body.String(), "being paid") || <-first != http.StatusNoContent {
		t.Errorf("the second click got %d %q", second.Code, second.Body)
	}
	if again := claim(ctx, two, "o1"); again.Code != http.StatusConflict || !strings.Contains(again.Body.String(), "before") || b.paid != 1 {
		t.Errorf("a click after that: %d %q, paid %d times", again.Code, again.Body, b.paid)
	}
}

// A client that leaves after the payment has begun does not keep it from being recorded.
func TestWhatWasPaidIsRecorded(t *testing.T) {
	n, b := replicatest.Start(t), newBank()
	ctx, leave := context.WithCancel(replicatest.Context(t))
	b.paying = leave
	handler := replica(t, n, b)
	claim(ctx, handler, "o1")
	if again := claim(replicatest.Context(t), handler, "o1"); again.Code != http.StatusConflict || b.paid != 1 {
		t.Errorf("the next click got %d, paid %d times", again.Code, b.paid)
	}
}

// A replica died while it held the lock: the user is told to try again, and can when the TTL has run out.
func TestAClaimAfterTheHolderDied(t *testing.T) {
	ctx, n, b := replicatest.Context(t), replicatest.Start(t), newBank()
	key := lock.Key("bonus", "ada", "o1")
	n.Abandon(t, key, time.Second)
	handler := replica(t, n, b)
	h, err := n.Open(t).TryAcquire(ctx, key, time.Minute, replicatest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if answer := claim(ctx, handler, "o1"); answer.Code != http.StatusConflict {
		t.Errorf("while it is held: %d", answer.Code)
	}
	if err := h.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if answer := claim(ctx, handler, "o1"); answer.Code != http.StatusNoContent {
		t.Errorf("after the TTL: %d", answer.Code)
	}
}

func TestNothingIsPaidWhileTheStoreIsDown(t *testing.T) {
	ctx, n, b := replicatest.Context(t), replicatest.Start(t), newBank()
	handler := replica(t, n, b)
	n.Server.Kill(t)
	if answer := claim(ctx, handler, "o1"); answer.Code != http.StatusServiceUnavailable || b.paid != 0 {
		t.Errorf("answer %d, paid %d times", answer.Code, b.paid)
	}
}
