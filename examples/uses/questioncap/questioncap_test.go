// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package questioncap_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/examples/uses/questioncap"
	"github.com/lockstead/lockstead/examples/uses/replicatest"
	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/memstore"
	"github.com/lockstead/lockstead/pkg/lock"
)

func TestMain(m *testing.M) { replicatest.Main(m, nil) }

// database is what the replicas share. Counting and inserting are two steps, and counted lets a test stand between them.
type database struct {
	mu      sync.Mutex
	open    map[string]int
	counted func(ctx context.Context, user string)
}

func newDatabase() *database { return &database{open: make(map[string]int)} }

func (d *database) CountOpen(ctx context.Context, session, user string) (int, error) {
	d.mu.Lock()
	open := d.open[session+"/"+user]
	d.mu.Unlock()
	if d.counted != nil {
		d.counted(ctx, user)
	}
	return open, nil
}

func (d *database) openOf(user string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open["s1/"+user]
}

func (d *database) Insert(ctx context.Context, session, user, _ string) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[session+"/"+user]++
	return fmt.Sprintf("%s-%d", user, d.open[session+"/"+user]), nil
}

func handler(t *testing.T, n *replicatest.Namespace, db *database, options *questioncap.Options) http.Handler {
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
	return questioncap.Handler(questioncap.New(locks, db, options), guard, caller, log)
}

func ask(ctx context.Context, handler http.Handler, user string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/sessions/s1/questions", strings.NewReader(url.Values{"text": {"Why?"}}.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("X-User", user)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

// Two users ask ten questions each at once on three replicas: each has exactly three open afterwards.
func TestTheCapHoldsOverReplicas(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	gaps := map[string]replicatest.Gap{"ada": replicatest.NewGap(), "grace": replicatest.NewGap()}
	db.counted = func(_ context.Context, user string) {
		if db.openOf(user) < 3 {
			gaps[user].Stay()
		}
	}
	options := &questioncap.Options{Wait: replicatest.Patience}
	replicas := []http.Handler{handler(t, n, db, options), handler(t, n, db, options), handler(t, n, db, options)}
	users := []string{"ada", "grace"}
	count := make(map[int]int)
	for _, status := range replicatest.AtOnce(20, func(i int) int {
		return ask(ctx, replicas[i%len(replicas)], users[i%len(users)]).Code
	}) {
		count[status]++
	}
	if count[http.StatusCreated] != 6 || count[http.StatusTooManyRequests] != 14 || db.open["s1/ada"] != 3 || db.open["s1/grace"] != 3 {
		t.Errorf("answers %v, open %v; want three questions each and 429 for the others", count, db.open)
	}
}

// A request that cannot get the lock within the wait is answered as at the cap, though nothing is open.
func TestContentionAnswersLikeTheCap(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	impatient := handler(t, n, db, &questioncap.Options{Wait: 50 * time.Millisecond})
	for range 3 {
		if answer := ask(ctx, impatient, "grace"); answer.Code != http.StatusCreated || answer.Header().Get("Location") == "" {
			t.Fatalf("answer %d to a question below the cap", answer.Code)
		}
	}
	capped := ask(ctx, impatient, "grace")
	n.Hold(t, lock.Key("question-cap", "s1", "ada"))
	contended := ask(ctx, impatient, "ada")
	if contended.Code != http.StatusTooManyRequests || contended.Code != capped.Code || contended.Body.String() != capped.Body.String() {
		t.Errorf("contention answers %d %q, the cap %d %q", contended.Code, contended.Body, capped.Code, capped.Body)
	}
}

// A replica dies with the lock in its hands. The user can ask again when the TTL has run out.
func TestTheUserOutwaitsAReplicaThatDied(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	n.Abandon(t, lock.Key("question-cap", "s1", "ada"), time.Second)
	if answer := ask(ctx, handler(t, n, db, &questioncap.Options{Wait: replicatest.Patience}), "ada"); answer.Code != http.StatusCreated {
		t.Errorf("answer %d %q", answer.Code, answer.Body)
	}
}

// A request that loses its lock after it counted does not insert: others may have counted the same.
func TestALostLockInsertsNothing(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	db.counted = func(ctx context.Context, _ string) {
		n.Remove(t, lock.Key("question-cap", "s1", "ada"))
		// The next renewal finds out, a third of the TTL later at the most.
		<-ctx.Done()
	}
	answer := ask(ctx, handler(t, n, db, &questioncap.Options{TTL: time.Second}), "ada")
	if answer.Code != http.StatusServiceUnavailable || len(db.open) != 0 {
		t.Errorf("answer %d, open %v", answer.Code, db.open)
	}
}

func TestAStoreThatIsDownTakesNoQuestion(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	replica := handler(t, n, db, nil)
	n.Server.Kill(t)
	answer := ask(ctx, replica, "ada")
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" || len(db.open) != 0 {
		t.Errorf("answer %d, open %v; want 503 with Retry-After", answer.Code, db.open)
	}
}
