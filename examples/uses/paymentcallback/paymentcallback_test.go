// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package paymentcallback_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstead/lockstead/examples/uses/paymentcallback"
	"github.com/lockstead/lockstead/examples/uses/replicatest"
	"github.com/lockstead/lockstead/pkg/lock"
)

func TestMain(m *testing.M) { replicatest.Main(m, nil) }

// shop is what the replicas share: the inbox, and what was applied to the orders.
type shop struct {
	mu      sync.Mutex
	inbox   map[string]bool
	applied []string
	inside  atomic.Int32
	overlap atomic.Bool
	// applying is called in the middle of an application. Nil does nothing.
	applying func()
}

func newShop() *shop { return &shop{inbox: make(map[string]bool)} }

func (s *shop) Has(_ context.Context, id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inbox[id], nil
}

func (s *shop) Add(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox[id] = true
	return nil
}

func (s *shop) Apply(_ context.Context, e paymentcallback.Event) error {
	if s.inside.Add(1) != 1 {
		s.overlap.Store(true)
	}
	defer s.inside.Add(-1)
	if s.applying != nil {
		s.applying()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied = append(s.applied, e.ID)
	return nil
}

func replica(t *testing.T, n *replicatest.Namespace, s *shop, options *paymentcallback.Options) http.Handler {
	t.Helper()
	return paymentcallback.Handler(paymentcallback.New(n.Open(t), s, s, options), slog.New(slog.NewTextHandler(t.Output(), nil)))
}

func call(ctx context.Context, handler http.Handler, id string) *httptest.ResponseRecorder {
	body, err := json.Marshal(paymentcallback.Event{ID: id, Payment: "p1", Kind: "paid"})
	if err != nil {
		panic(err)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodPost, "/callback", bytes.NewReader(body)))
	return recorder
}

// Three replicas get four events of one payment, each three times, all at once: each is applied once, and one after another.
func TestEventsAreAppliedOnceAndOneByOne(t *testing.T) {
	ctx, n, s := replicatest.Context(t), replicatest.Start(t), newShop()
	s.applying = replicatest.NewGap().Stay
	patient := &paymentcallback.Options{Wait: replicatest.Patience}
	replicas := []http.Handler{replica(t, n, s, patient), replica(t, n, s, patient), replica(t, n, s, patient)}
	for i, status := range replicatest.AtOnce(12, func(i int) int {
		return call(ctx, replicas[i%len(replicas)], fmt.Sprintf("event-%d", i/len(replicas))).Code
	}) {
		if status != http.StatusNoContent {
			t.Errorf("call %d: %d", i, status)
		}
	}
	if len(s.applied) != 4 || s.overlap.Load() {
		t.Errorf("applied %v, two at one time: %t", s.applied, s.overlap.Load())
	}
}

// An event that cannot get its turn is sent again by the provider, and then it is applied.
func TestContentionAsksForARepeat(t *testing.T) {
	ctx, n, s := replicatest.Context(t), replicatest.Start(t), newShop()
	release := n.Hold(t, lock.Key("payment", "p1"))
	handler := replica(t, n, s, &paymentcallback.Options{Wait: 50 * time.Millisecond})
	if answer := call(ctx, handler, "event-1"); answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" || len(s.inbox) != 0 {
		t.Errorf("answer %d, inbox %v", answer.Code, s.inbox)
	}
	release()
	if answer := call(ctx, handler, "event-1"); answer.Code != http.StatusNoContent || len(s.applied) != 1 {
		t.Errorf("the repeat: %d, applied %v", answer.Code, s.applied)
	}
}

// A replica died with the lock of a payment. The next event waits until its TTL has run out.
func TestTheNextEventOutwaitsAReplicaThatDied(t *testing.T) {
	ctx, n, s := replicatest.Context(t), replicatest.Start(t), newShop()
	n.Abandon(t, lock.Key("payment", "p1"), time.Second)
	if answer := call(ctx, replica(t, n, s, &paymentcallback.Options{Wait: replicatest.Patience}), "event-1"); answer.Code != http.StatusNoContent {
		t.Errorf("answer %d", answer.Code)
	}
}

// A provider that hangs up does not get an event applied twice.
func TestAProviderThatHangsUp(t *testing.T) {
	n, s := replicatest.Start(t), newShop()
	ctx, hangUp := context.WithCancel(replicatest.Context(t))
	s.applying = hangUp
	handler := replica(t, n, s, nil)
	call(ctx, handler, "event-1")
	if answer := call(replicatest.Context(t), handler, "event-1"); answer.Code != http.StatusNoContent || len(s.applied) != 1 {
		t.Errorf("the repeat: %d, applied %v", answer.Code, s.applied)
	}
}

func TestAStoreThatIsDownLosesNoEvent(t *testing.T) {
	ctx, n, s := replicatest.Context(t), replicatest.Start(t), newShop()
	handler := replica(t, n, s, nil)
	n.Server.Kill(t)
	if answer := call(ctx, handler, "event-1"); answer.Code != http.StatusServiceUnavailable || len(s.applied) != 0 {
		t.Errorf("answer %d, applied %v", answer.Code, s.applied)
	}
	n.Server.Run(t)
	if answer := call(ctx, handler, "event-1"); answer.Code != http.StatusNoContent || len(s.applied) != 1 {
		t.Errorf("the repeat: %d, applied %v", answer.Code, s.applied)
	}
}
