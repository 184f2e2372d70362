// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package routers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/examples/routers/shop"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const orders = "/v1/accounts/7/orders"

func TestReplay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router) {
		b := &books{}
		server, seen := serve(t, r, b)
		first := send(t, server, http.MethodPost, orders, "k1", "book")
		first.want(t, http.StatusCreated, "order 1")
		second := send(t, server, http.MethodPost, orders, "k1", "book")
		if !second.replayed() || second.status != first.status || second.body != first.body || second.header.Get("Location") != orders+"/1" ||
			second.header.Get("Content-Type") != first.header.Get("Content-Type") {
			t.Errorf("the repeat got %+v, want a replay of %+v", second, first)
		}
		// Without a key, each is an order of its own.
		send(t, server, http.MethodPost, orders, "", "book").want(t, http.StatusCreated, "order 2")
		send(t, server, http.MethodPost, orders, "", "book").want(t, http.StatusCreated, "order 3")
		// A route that changes nothing is not guarded, with or without a key.
		send(t, server, http.MethodGet, orders, "k1", "").want(t, http.StatusOK, "orders of 7")
		// No body is an answer too.
		const refund = "/v1/accounts/7/refunds?amount=5"
		send(t, server, http.MethodPost, refund, "k2", "").want(t, http.StatusNoContent, "")
		if again := send(t, server, http.MethodPost, refund, "k2", ""); again.status != http.StatusNoContent || !again.replayed() {
			t.Errorf("the repeated refund got %+v", again)
		}
		if b.total() != 4 {
			t.Errorf("%d orders and refunds, want 4", b.total())
		}
		route := "/v1/accounts/" + r.parameter + "/"
		if want := []string{route + "orders", route + "orders", route + "refunds", route + "refunds"}; !slices.Equal(seen.list(), want) {
			t.Errorf("the routes are called %q, want %q", seen.list(), want)
		}
	})
}

// The route is part of the key, with the prefix of its group; the parameters of the path are what the key is bound to.
func TestRoutesAndParameters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router) {
		server, _ := serve(t, r, &books{})
		send(t, server, http.MethodPost, orders, "k1", "book").want(t, http.StatusCreated, "order 1")
		send(t, server, http.MethodPost, "/v1/accounts/7/refunds", "k1", "book").want(t, http.StatusNoContent, "")
		send(t, server, http.MethodPost, "/v1/accounts/8/orders", "k1", "book").want(t, http.StatusUnprocessableEntity, "idempotency-key-reused")
		send(t, server, http.MethodPost, orders, "k1", "another book").want(t, http.StatusUnprocessableEntity, "idempotency-key-reused")
		send(t, server, http.MethodPost, orders+"?express=1", "k1", "book").want(t, http.StatusUnprocessableEntity, "idempotency-key-reused")
		if again := send(t, server, http.MethodPost, orders, "k1", "book"); !again.replayed() {
			t.Errorf("the repeat got %+v", again)
		}
	})
}

func TestDeclaredRefusals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router) {
		b := &books{}
		server, seen := serve(t, r, b)
		send(t, server, http.MethodPost, "/v1/accounts/7/refunds", "", "").want(t, http.StatusBadRequest, "idempotency-key-missing")
		send(t, server, http.MethodPost, "/v1/sessions", "k1", "").want(t, http.StatusBadRequest, "idempotency-key-unsupported")
		if b.total() != 0 {
			t.Errorf("%d executions of refused requests", b.total())
		}
		send(t, server, http.MethodPost, "/v1/sessions", "", "").want(t, http.StatusCreated, "token 1")
		if want := []string{"/v1/accounts/" + r.parameter + "/refunds", "/v1/sessions"}; !slices.Equal(seen.list(), want) {
			t.Errorf("the guard was asked for %q, want %q", seen.list(), want)
		}
	})
}

// What the router answers itself is not the guard's.
func TestNoRoute(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router) {
		server, seen := serve(t, r, &books{})
		for range 2 {
			send(t, server, http.MethodPost, "/v1/nothing", "k1", "").want(t, http.StatusNotFound, "")
			send(t, server, http.MethodPut, orders, "k1", "").want(t, http.StatusMethodNotAllowed, "")
		}
		if len(seen.list()) > 0 {
			t.Errorf("the guard was asked for %q", seen.list())
		}
	})
}

// A failure is answered as the router does it, and not kept: the repeat orders again.
func TestFailuresAreNotKept(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router) {
		fail := func() error { return shop.ErrSoldOut }
		b := &books{ordering: fail}
		server, _ := serve(t, r, b)
		bare := send(t, server, http.MethodPost, orders, "", "book")
		bare.want(t, http.StatusGone, "sold out")
		if guarded := send(t, server, http.MethodPost, orders, "k1", "book"); guarded.status != bare.status || guarded.body != bare.body {
			t.Errorf("with a key the failure is %+v, without %+v", guarded, bare)
		}
		b.ordering = nil
		send(t, server, http.MethodPost, orders, "k1", "book").want(t, http.StatusCreated, "order 3")
		if again := send(t, server, http.MethodPost, orders, "k1", "book"); !again.replayed() {
			t.Errorf("the repeat got %+v", again)
		}
	})
}

func TestPanicFreesTheKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router) {
		b := &books{ordering: func() error { panic("the printer is on fire") }}
		server, _ := serve(t, r, b)
		for range 2 {
			if a := send(t, server, http.MethodPost, orders, "k1", "book"); a.status != http.StatusInternalServerError || a.replayed() {
				t.Errorf("a panic is answered %+v", a)
			}
		}
		b.ordering = nil
		send(t, server, http.MethodPost, orders, "k1", "book").want(t, http.StatusCreated, "order 3")
	})
}

func TestConflict(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router) {
		inside, finish := make(chan struct{}), make(chan struct{})
		b := &books{refund: func() { close(inside); <-finish }}
		server, _ := serve(t, r, b)
		first := make(chan error, 1)
		go func() {
			a, err := try(t.Context(), server, http.MethodPost, "/v1/accounts/7/refunds", "k1", "")
			if err == nil && a.status != http.StatusNoContent {
				err = fmt.Errorf("the first refund got %+v", a)
			}
			first <- err
		}()
		select {
		case <-inside:
		case err := <-first:
			t.Fatalf("the first refund ended: %v", err)
		}
		second := send(t, server, http.MethodPost, "/v1/accounts/7/refunds", "k1", "")
		close(finish)
		second.want(t, http.StatusConflict, "idempotency-request-in-flight")
		if err := <-first; err != nil || second.header.Get("Retry-After") == "" || b.total() != 1 {
			t.Errorf("%v; the second got %+v; %d refunds", err, second, b.total())
		}
	})
}

// Three replicas of the shop with records and locks in a real Redis get one order twelve times at once.
func TestReplicasOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, nil)
	each(t, func(t *testing.T, r router) {
		b, root := &books{}, "app:"+t.Name()+":"
		replicas := make([]func() (answer, error), 3)
		for i := range replicas {
			d, err := redislock.New(server.Admin(t), &redislock.Options{Access: binding.AccessScripts})
			if err != nil {
				t.Fatal(err)
			}
			client, err := lock.New(d, "lk:{"+root+"}:", nil)
			if err != nil {
				t.Fatal(err)
			}
			store, err := redisstore.New(server.Admin(t), root, nil)
			if err != nil {
				t.Fatal(err)
			}
			replica := serveHandler(t, r.handler(guard(t, store, client, &routesSeen{}), b))
			replicas[i] = func() (answer, error) {
				return try(context.WithoutCancel(t.Context()), replica, http.MethodPost, orders, "k1", "book")
			}
		}
		results := make(chan error, 12)
		for i := range cap(results) {
			go func() {
				a, err := replicas[i%len(replicas)]()
				if err == nil && (a.status != http.StatusCreated || a.body != "order 1") {
					err = fmt.Errorf("answer %d %q", a.status, a.body)
				}
				results <- err
			}()
		}
		for range cap(results) {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if b.total() != 1 {
			t.Errorf("%d orders, want one", b.total())
		}
	})
}

// The routes of this module pass idemlint, and it is not because it does not look at them: a route that loses its declaration is found.
func TestEveryRouteIsDeclared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tool := filepath.Join(dir, "idemlint")
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
		return string(out), err
	}
	if out, err := run("build", "-o", tool, "../../pkg/idemlint/cmd/idemlint"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := run("vet", "-vettool="+tool, "./..."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	changes := map[string]string{}
	for name, declared := range map[string]string{
		"chishop":   ".With(Declare(g, shop.Orders))",
		"ginshop":   "Declare(g, shop.Orders), ",
		"echoshop":  ", Declare(g, shop.Orders)",
		"echo4shop": ", Declare(g, shop.Orders)",
	} {
		path, err := filepath.Abs(filepath.Join(name, "shop.go"))
		if err != nil {
			t.Fatal(err)
		}
		changes[path] = filepath.Join(dir, name+".go")
		code, err := os.ReadFile(path)
		if err != nil || bytes.Count(code, []byte(declared)) != 1 {
			t.Fatalf("%s has %d times %s, %v", path, bytes.Count(code, []byte(declared)), declared, err)
		}
		if err := os.WriteFile(changes[path], bytes.Replace(code, []byte(declared), nil, 1), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay := filepath.Join(dir, "overlay.json")
	replaced, err := json.Marshal(map[string]any{"Replace": changes})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replaced, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run("vet", "-overlay="+overlay, "-vettool="+tool, "./...")
	if found := strings.Count(out, "orders does not say what a repeated request does"); err == nil || found != len(changes) {
		t.Errorf("%d of %d routes without a declaration were found: %v\n%s", found, len(changes), err, out)
	}
}

// What the page shows of these recipes is their code.
func TestDocumentedCodeIsThisCode(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.WriteString(flat(string(text)))
	}
	page, err := os.ReadFile("../../docs/idempotency.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Other routers\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := strings.Split(section, "```go\n")[1:]
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(code.String(), flat(block)) {
			t.Errorf("no file of this module has:\n%s", block)
		}
	}
	if len(blocks) < 3 {
		t.Errorf("the page shows %d recipes", len(blocks))
	}
}

// flat takes the indentation away.
func flat(code string) string {
	var lines strings.Builder
	for line := range strings.Lines(code) {
		lines.WriteString(strings.TrimSpace(line) + "\n")
	}
	return lines.String()
}
