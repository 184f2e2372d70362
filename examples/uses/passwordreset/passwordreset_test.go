// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package passwordreset_test

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/examples/uses/passwordreset"
	"github.com/lockstead/lockstead/examples/uses/replicatest"
	"github.com/lockstead/lockstead/pkg/lock"
)

func TestMain(m *testing.M) { replicatest.Main(m, nil) }

const (
	account = "ada@example.org"
	token   = "b8c1f3b0a7b94e0f9d9b3a4c5d6e7f80"
)

// keyOfToken is the key of the lock, as an operator sees it.
func keyOfToken() string {
	digest := passwordreset.DigestOf(token)
	return lock.Key("password-reset", hex.EncodeToString(digest[:]))
}

// database is what the replicas share. Reading and removing are two steps, and found lets a test stand between them.
type database struct {
	mu       sync.Mutex
	digests  map[string]passwordreset.Digest
	sets     int
	password string
	found    func(ctx context.Context)
}

func newDatabase() *database {
	return &database{digests: map[string]passwordreset.Digest{account: passwordreset.DigestOf(token)}}
}

func (d *database) Find(ctx context.Context, account string) (passwordreset.Digest, bool, error) {
	d.mu.Lock()
	digest, ok := d.digests[account]
	d.mu.Unlock()
	if ok && d.found != nil {
		d.found(ctx)
	}
	return digest, ok, nil
}

func (d *database) Remove(ctx context.Context, account string) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.digests, account)
	return nil
}

func (d *database) Set(_ context.Context, _, password string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sets++
	d.password = password
	return nil
}

func post(ctx context.Context, handler http.Handler, token, password string) *httptest.ResponseRecorder {
	form := url.Values{"account": {account}, "token": {token}, "password": {password}}
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/password-reset", strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

func replica(t *testing.T, n *replicatest.Namespace, db *database, options *passwordreset.Options) http.Handler {
	t.Helper()
	return passwordreset.Handler(passwordreset.New(n.Open(t), db, db, options), slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// Three replicas get twelve requests with one token at once: one sets the password, the others are told that the token is invalid.
func TestATokenIsRedeemedOnce(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	gap := replicatest.NewGap()
	db.found = func(context.Context) { gap.Stay() }
	replicas := []http.Handler{replica(t, n, db, nil), replica(t, n, db, nil), replica(t, n, db, nil)}
	statuses := replicatest.AtOnce(12, func(i int) int {
		return post(ctx, replicas[i%len(replicas)], token, "a new one").Code
	})
	count := make(map[int]int)
	for _, status := range statuses {
		count[status]++
	}
	if db.sets != 1 || count[http.StatusNoContent] != 1 || count[http.StatusBadRequest] != 11 {
		t.Errorf("the password was set %d times, answers %v; want one 204 and eleven 400", db.sets, count)
	}
}

// While a token is being redeemed, and longer than the wait, another request is answered as if it had been already.
func TestContentionAnswersInvalidToken(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	n.Hold(t, keyOfToken())
	contended := post(ctx, replica(t, n, db, &passwordreset.Options{Wait: 50 * time.Millisecond}), token, "a new one")
	unknown := post(ctx, replica(t, n, db, nil), "no such token", "a new one")
	if contended.Code != http.StatusBadRequest || contended.Body.String() != unknown.Body.String() {
		t.Errorf("contention answers %d %q, an unknown token %d %q", contended.Code, contended.Body, unknown.Code, unknown.Body)
	}
	if db.sets != 0 || len(db.digests) != 1 {
		t.Errorf("the password was set %d times, %d resets are left", db.sets, len(db.digests))
	}
}

// A replica dies with the lock in its hands. The token is good again when the TTL has run out.
func TestTheTokenOutlivesAReplicaThatDied(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	n.Abandon(t, keyOfToken(), time.Second)
	if answer := post(ctx, replica(t, n, db, &passwordreset.Options{Wait: replicatest.Patience}), token, "a new one"); answer.Code != http.StatusNoContent {
		t.Errorf("answer %d %q", answer.Code, answer.Body)
	}
}

// A redemption that loses its lock between the read and the removal removes nothing. The holder of the lock decides.
func TestALostLockRedeemsNothing(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	db.found = func(ctx context.Context) {
		n.Remove(t, keyOfToken())
		// The next renewal finds out, a third of the TTL later at the most.
		<-ctx.Done()
	}
	answer := post(ctx, replica(t, n, db, &passwordreset.Options{TTL: time.Second}), token, "a new one")
	if answer.Code != http.StatusServiceUnavailable || db.sets != 0 || len(db.digests) != 1 {
		t.Errorf("answer %d, password set %d times, %d resets left; want 503 and the token untouched", answer.Code, db.sets, len(db.digests))
	}
}

// With the store of locks down the token stays good.
func TestAStoreThatIsDownLeavesTheTokenGood(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	handler := replica(t, n, db, nil)
	n.Server.Kill(t)
	answer := post(ctx, handler, token, "a new one")
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" || db.sets != 0 || len(db.digests) != 1 {
		t.Errorf("answer %d, password set %d times; want 503 with Retry-After, and the token untouched", answer.Code, db.sets)
	}
	n.Server.Run(t)
	if answer := post(ctx, handler, token, "a new one"); answer.Code != http.StatusNoContent {
		t.Errorf("after the restart: %d %q", answer.Code, answer.Body)
	}
}

// A client that leaves is neither an invalid token nor a fault, and has not used the token up.
func TestAClientThatLeavesUsesNothingUp(t *testing.T) {
	n, db := replicatest.Start(t), newDatabase()
	n.Hold(t, keyOfToken())
	ctx, leave := context.WithCancel(replicatest.Context(t))
	leave()
	err := passwordreset.New(n.Open(t), db, db, nil).Redeem(ctx, account, token, "a new one")
	if !errors.Is(err, context.Canceled) || errors.Is(err, passwordreset.ErrInvalidToken) || len(db.digests) != 1 {
		t.Errorf("got %v, want the end of the context", err)
	}
}

// Whoever can list the keys of the store does not learn a token.
func TestTheKeyDoesNotTellTheToken(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	var keys []string
	db.found = func(ctx context.Context) {
		var err error
		if keys, err = n.Server.Admin(t).Keys(ctx, "*").Result(); err != nil {
			t.Error(err)
		}
	}
	post(ctx, replica(t, n, db, nil), token, "a new one")
	all := strings.Join(keys, "\n")
	if !strings.Contains(all, keyOfToken()) || strings.Contains(all, token) {
		t.Errorf("keys in the store:\n%s", all)
	}
}
