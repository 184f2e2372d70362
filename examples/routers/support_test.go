// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package routers_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/lockstead/lockstead/examples/routers/chishop"
	"github.com/lockstead/lockstead/examples/routers/echo4shop"
	"github.com/lockstead/lockstead/examples/routers/echoshop"
	"github.com/lockstead/lockstead/examples/routers/ginshop"
	"github.com/lockstead/lockstead/examples/routers/shop"
	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/memstore"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

const patience = 30 * time.Second

// router is one of the recipes, and how it writes the parameter of a path.
type router struct {
	handler   func(*idempotency.Guard, shop.Shop) http.Handler
	parameter string
}

func routers() map[string]router {
	gin.SetMode(gin.ReleaseMode) // Without its list of routes.
	gin.DefaultErrorWriter = io.Discard
	return map[string]router{
		"chi":   {chishop.Handler, "{account}"},
		"gin":   {ginshop.Handler, ":account"},
		"echo":  {echoshop.Handler, ":account"},
		"echo4": {echo4shop.Handler, ":account"},
	}
}

// each runs a test for every router.
func each(t *testing.T, test func(t *testing.T, r router)) {
	t.Helper()
	for name, r := range routers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, r)
		})
	}
}

// books counts what the shop did. The hooks are called in the middle of it; nil does nothing.
type books struct {
	mu       sync.Mutex
	done     int
	ordering func() error
	refund   func()
}

func (b *books) next() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done++
	return strconv.Itoa(b.done)
}

func (b *books) total() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done
}

func (b *books) Order(ctx context.Context, _, _ string) (string, error) {
	id := b.next()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if b.ordering != nil {
		return id, b.ordering()
	}
	return id, nil
}

func (b *books) Refund(context.Context, string, string) (string, error) {
	if b.refund != nil {
		b.refund()
	}
	return b.next(), nil
}

func (b *books) Login(context.Context) (string, error) { return "token " + b.next(), nil }

// routesSeen are the names of the routes of all requests that the guard took part in.
type routesSeen struct {
	mu    sync.Mutex
	names []string
}

func (s *routesSeen) answered(_ context.Context, e idempotency.AnsweredEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, e.Route)
}

func (s *routesSeen) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names
}

// guard makes a guard over a store and a lock client.
func guard(t *testing.T, store idempotency.Store, client *lock.Client, seen *routesSeen) *idempotency.Guard {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := client.Close(ctx); err != nil {
			t.Errorf("close of the lock client: %v", err)
		}
	})
	g, err := idempotency.New(store, client, &idempotency.Options{
		Caller:   func(r *http.Request) string { return r.Header.Get("X-User") },
		Logger:   slog.New(slog.NewTextHandler(t.Output(), nil)),
		Observer: &idempotency.Observer{Answered: seen.answered},
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// serve serves a shop, with records and locks in the memory of this process.
func serve(t *testing.T, r router, b *books) (*httptest.Server, *routesSeen) {
	t.Helper()
	store, err := memstore.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := lock.New(memlock.New(nil), "shop:", nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := &routesSeen{}
	return serveHandler(t, r.handler(guard(t, store, client, seen), b)), seen
}

func serveHandler(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) replayed() bool { return a.header.Get("X-Idempotent-Replay") == "true" }

func (a answer) want(t *testing.T, status int, contains string) {
	t.Helper()
	if a.status != status || !strings.Contains(a.body, contains) {
		t.Errorf("answer %d %q, want %d with %q", a.status, a.body, status, contains)
	}
}

// try sends a request with the key, or without one if it is empty.
func try(ctx context.Context, server *httptest.Server, method, path, key, body string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("X-User", "ada")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	response, err := server.Client().Do(r)
	if err != nil {
		return answer{}, err
	}
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text)}, errors.Join(err, response.Body.Close())
}

func send(t *testing.T, server *httptest.Server, method, path, key, body string) answer {
	t.Helper()
	a, err := try(t.Context(), server, method, path, key, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
