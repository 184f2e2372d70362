// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/idempotencytest"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func TestMain(m *testing.M) {
	if serveAsChild() {
		return
	}
	goleak.VerifyTestMain(redistest.PerServer(m))
}

const patience = 30 * time.Second

func newStore(t *testing.T, client redis.UniversalClient, prefix string, options *redisstore.Options) *redisstore.Store {
	t.Helper()
	store, err := redisstore.New(client, prefix, options)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestConformance(t *testing.T) {
	server := redistest.Start(t, nil)
	const limit = 100_000
	idempotencytest.Run(t, idempotencytest.Harness{
		MaxResponse: limit,
		NewStore: func(t *testing.T) idempotency.Store {
			return newStore(t, server.Admin(t), "conformance:", &redisstore.Options{MaxResponse: limit})
		},
	})
}

func TestConformanceOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, nil)
	idempotencytest.Run(t, idempotencytest.Harness{
		MaxResponse: 256 << 10,
		NewStore:    func(t *testing.T) idempotency.Store { return newStore(t, cluster.Admin(t), "conformance:", nil) },
	})
}

func newKey() (key idempotency.Key) {
	_, _ = rand.Read(key[:])
	return key
}

func newClaim() idempotency.Claim {
	return idempotency.Claim{Ownership: idempotency.Ownership{Owner: rand.Text()}, Lease: time.Minute, Retention: time.Hour}
}

func TestTheDocumentedRightsAreEnoughAndNoOthersAreNeeded(t *testing.T) {
	server := redistest.Start(t, nil)
	admin := server.Admin(t)
	rights := []any{"+evalsha", "+eval", "+time", "+hmget", "+hset", "+pexpire", "+pttl", "+del"}
	use := func(without any) error {
		user, password := "u"+rand.Text(), rand.Text()
		command := []any{"acl", "setuser", user, "on", ">" + password, "~app:*"}
		for _, right := range rights {
			if right != without {
				command = append(command, right)
			}
		}
		if err := admin.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
		store := newStore(t, server.Client(t, user, password), "app:", nil)
		key, claim, other := newKey(), newClaim(), newClaim()
		admin.ScriptFlush(t.Context())
		_, err := store.Begin(t.Context(), key, claim)
		_, getErr := store.Get(t.Context(), key)
		err = errors.Join(err, getErr, store.Extend(t.Context(), key, claim.Ownership, 2*time.Hour),
			store.Complete(t.Context(), key, claim.Ownership, idempotency.Result{State: idempotency.Done, Retention: time.Hour}))
		otherKey := newKey()
		_, beginErr := store.Begin(t.Context(), otherKey, other)
		return errors.Join(err, beginErr, store.Abort(t.Context(), otherKey, other.Ownership))
	}
	if err := use(nil); err != nil {
		t.Errorf("with the documented rights: %v", err)
	}
	for _, right := range rights {
		if err := use(right); err == nil {
			t.Errorf("without %s nothing fails: the documentation asks for too much", right)
		}
	}
}

func TestRecordsSurviveARestartOfTheServer(t *testing.T) {
	server := redistest.Start(t, nil)
	options := server.ClientOptions("admin", server.AdminPassword())
	options.MaxRetries = 3
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	store := newStore(t, client, "app:", nil)
	key, claim := newKey(), newClaim()
	if _, err := store.Begin(t.Context(), key, claim); err != nil {
		t.Fatal(err)
	}
	server.Kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := store.Extend(ctx, key, claim.Ownership, time.Minute); err == nil || errors.Is(err, idempotency.ErrClaimLost) {
		t.Errorf("with the server down: %v, want a fault", err)
	}
	server.Run(t)
	if err := store.Complete(ctx, key, claim.Ownership, idempotency.Result{State: idempotency.Done, Response: []byte("answer"), Retention: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if r, err := store.Get(ctx, key); err != nil || string(r.Response) != "answer" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAFullServerRefusesToBegin(t *testing.T) {
	server := redistest.Start(t, nil)
	admin := server.Admin(t)
	if err := admin.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	store := newStore(t, admin, "app:", nil)
	if _, err := store.Begin(t.Context(), newKey(), newClaim()); err == nil || errors.Is(err, idempotency.ErrClaimLost) {
		t.Errorf("Begin on a full server: %v, want a fault", err)
	}
	if err := admin.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
}

func TestStepsTakeOneRoundTrip(t *testing.T) {
	server := redistest.Start(t, nil)
	client := redis.NewClient(server.ClientOptions("admin", server.AdminPassword()))
	defer func() { _ = client.Close() }()
	var counted counter
	client.AddHook(&counted)
	store := newStore(t, client, "app:", nil)
	warm := newClaim()
	_, _ = store.Begin(t.Context(), newKey(), warm) // Sends the script.
	key := newKey()
	_, _ = store.Get(t.Context(), key)
	counted.names = nil
	if _, err := store.Begin(t.Context(), key, newClaim()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(counted.names, []string{"evalsha", "evalsha"}) {
		t.Errorf("a begin and a read sent %q", counted.names)
	}
}

// counter notes every command.
type counter struct{ names []string }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.names = append(c.names, cmd.Name())
		return next(ctx, cmd)
	}
}
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestWhatIsInTheWayIsAFault(t *testing.T) {
	server := redistest.Start(t, nil)
	admin := server.Admin(t)
	store := newStore(t, admin, "app:", nil)
	for name, put := range map[string]func(key string) error{
		"another type": func(key string) error { return admin.Set(t.Context(), key, "x", 0).Err() },
		"another shape": func(key string) error {
			return admin.HSet(t.Context(), key, "s", 2, "o", "x", "t", "bad", "f", "y").Err()
		},
	} {
		key := newKey()
		if err := put("app:" + key.String()); err != nil {
			t.Fatal(err)
		}
		if r, err := store.Get(t.Context(), key); err == nil {
			t.Errorf("%s: %+v, want a fault", name, r)
		}
	}
	// A record in flight without an end is held, however old.
	key := newKey()
	if err := admin.HSet(t.Context(), "app:"+key.String(), "s", 1, "o", "x", "t", "", "f", fmt.Sprintf("%032d", 0)).Err(); err != nil {
		t.Fatal(err)
	}
	claim := newClaim()
	if r, err := store.Begin(t.Context(), key, claim); err != nil || r.Owned(claim.Ownership) || r.Expired {
		t.Errorf("a record without an end: %+v, %v, want it held", r, err)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"})
	defer func() { _ = client.Close() }()
	for name, err := range map[string]error{
		"no client":  second(redisstore.New(nil, "p:", nil)),
		"no prefix":  second(redisstore.New(client, "", nil)),
		"a negative": second(redisstore.New(client, "p:", &redisstore.Options{MaxResponse: -1})),
	} {
		if _, ok := errors.AsType[*idempotency.InvalidError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ *redisstore.Store, err error) error { return err }
