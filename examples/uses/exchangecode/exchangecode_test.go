// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package exchangecode_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/examples/uses/exchangecode"
	"github.com/lockstead/lockstead/examples/uses/replicatest"
	"github.com/lockstead/lockstead/pkg/lock"
)

func TestMain(m *testing.M) { replicatest.Main(m, nil) }

const (
	code     = "SplxlOBeZQQYbYS6WxSbIA"
	clientID = "s6BhdRkqt3"
	redirect = "https://client.example.org/cb"
)

func key() string { return lock.Key("exchange-code", exchangecode.DigestOf(code)) }

// database is what the replicas share. Reading and removing are two steps, and found lets a test stand between them.
type database struct {
	mu     sync.Mutex
	grants map[string]exchangecode.Grant
	issued int
	found  func()
}

func newDatabase() *database {
	return &database{grants: map[string]exchangecode.Grant{
		exchangecode.DigestOf(code): {ClientID: clientID, RedirectURI: redirect, User: "ada"},
	}}
}

func (d *database) Find(_ context.Context, digest string) (exchangecode.Grant, bool, error) {
	d.mu.Lock()
	g, ok := d.grants[digest]
	d.mu.Unlock()
	if ok && d.found != nil {
		d.found()
	}
	return g, ok, nil
}

func (d *database) Remove(_ context.Context, digest string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.grants, digest)
	return nil
}

func (d *database) Issue(_ context.Context, g exchangecode.Grant) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.issued++
	return fmt.Sprintf("token-%d-of-%s", d.issued, g.User), nil
}

func handler(t *testing.T, locks *lock.Client, db *database, options *exchangecode.Options) http.Handler {
	t.Helper()
	e, err := exchangecode.New(locks, db, db, options)
	if err != nil {
		t.Fatal(err)
	}
	return exchangecode.Handler(e, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// post returns the status and what the answer says: an access token or an error.
func post(ctx context.Context, handler http.Handler, clientID string) (status int, said string) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {clientID}, "redirect_uri": {redirect}}
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/token", strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	var body struct {
		Token string `json:"access_token"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &body); err != nil {
		return recorder.Code, err.Error()
	}
	return recorder.Code, body.Token + body.Error
}

// Three replicas get twelve requests with one code at once: one token is issued, and the others are answered invalid_grant.
func TestACodeIsRedeemedOnce(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	db.found = replicatest.NewGap().Stay
	replicas := []http.Handler{handler(t, n.Open(t), db, nil), handler(t, n.Open(t), db, nil), handler(t, n.Open(t), db, nil)}
	count := make(map[string]int)
	for _, said := range replicatest.AtOnce(12, func(i int) string {
		_, said := post(ctx, replicas[i%len(replicas)], clientID)
		return said
	}) {
		count[said]++
	}
	if db.issued != 1 || count["token-1-of-ada"] != 1 || count["invalid_grant"] != 11 {
		t.Errorf("%d tokens, answers %v; want one token and eleven times invalid_grant", db.issued, count)
	}
}

func TestContentionAnswersInvalidGrant(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	n.Hold(t, key())
	status, said := post(ctx, handler(t, n.Open(t), db, &exchangecode.Options{Wait: 50 * time.Millisecond}), clientID)
	if status != http.StatusBadRequest || said != "invalid_grant" || db.issued != 0 {
		t.Errorf("answer %d %s, %d tokens", status, said, db.issued)
	}
}

// A client that presents the code of another does not use it up.
func TestTheCodeOfAnotherClientStaysGood(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	replica := handler(t, n.Open(t), db, nil)
	if status, said := post(ctx, replica, "somebody-else"); status != http.StatusBadRequest || said != "invalid_grant" {
		t.Errorf("another client: %d %s", status, said)
	}
	if status, said := post(ctx, replica, clientID); status != http.StatusOK {
		t.Errorf("the right client: %d %s", status, said)
	}
}

// A replica dies with the lock in its hands. The code is good again when the TTL has run out.
func TestTheCodeOutlivesAReplicaThatDied(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	n.Abandon(t, key(), time.Second)
	if status, said := post(ctx, handler(t, n.Open(t), db, &exchangecode.Options{Wait: replicatest.Patience}), clientID); status != http.StatusOK {
		t.Errorf("answer %d %s", status, said)
	}
}

func TestAStoreThatIsDownLeavesTheCodeGood(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), newDatabase()
	replica := handler(t, n.Open(t), db, nil)
	n.Server.Kill(t)
	if status, said := post(ctx, replica, clientID); status != http.StatusServiceUnavailable || said != "temporarily_unavailable" || db.issued != 0 {
		t.Errorf("answer %d %s, %d tokens", status, said, db.issued)
	}
	n.Server.Run(t)
	if status, said := post(ctx, replica, clientID); status != http.StatusOK {
		t.Errorf("after the restart: %d %s", status, said)
	}
}

// Without a lock a code is used once on each replica, and no more: it is said in the log, once a replica, and this is what it means.
func TestWithoutALockACodeIsSingleUsePerReplica(t *testing.T) {
	ctx, db, log := replicatest.Context(t), newDatabase(), replicatest.NewLog()
	options := &exchangecode.Options{Logger: log.Logger}
	one, two := handler(t, nil, db, options), handler(t, nil, db, options)
	if log.Count("level=WARN", "single-use per replica only") != 2 {
		t.Error("each replica should have warned once")
	}
	// Both replicas have read the grant before either removes it.
	var once sync.Once
	met := make(chan struct{})
	db.found = func() {
		first := false
		once.Do(func() { first = true })
		if first {
			<-met
		} else {
			close(met)
		}
	}
	said := replicatest.AtOnce(2, func(i int) int {
		status, _ := post(ctx, []http.Handler{one, two}[i], clientID)
		return status
	})
	if said[0] != http.StatusOK || said[1] != http.StatusOK || db.issued != 2 {
		t.Errorf("answers %v, %d tokens; want the two that the warning speaks of", said, db.issued)
	}

	again := newDatabase()
	again.found = replicatest.NewGap().Stay
	alone := handler(t, nil, again, options)
	count := make(map[int]int)
	for _, status := range replicatest.AtOnce(12, func(int) int {
		status, _ := post(ctx, alone, clientID)
		return status
	}) {
		count[status]++
	}
	if again.issued != 1 || count[http.StatusOK] != 1 || count[http.StatusBadRequest] != 11 {
		t.Errorf("one replica issued %d tokens, answers %v", again.issued, count)
	}
}
