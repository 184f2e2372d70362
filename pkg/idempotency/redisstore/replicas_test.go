// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore"
	"github.com/lockstead/lockstead/pkg/internal/child"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// The variables that make the test binary a replica of a small application.
const (
	replicaAddr     = "IDEMPOTENCY_TEST_REDIS"
	replicaPassword = "IDEMPOTENCY_TEST_PASSWORD" //nolint:gosec // The name of a variable.
)

// leaseTTL is short, so that a test can wait for the end of a dead replica's lease.
const leaseTTL = 2 * time.Second

// serveAsChild serves orders until the process is killed. It reports false in the process of the test.
func serveAsChild() bool {
	if os.Getenv(replicaAddr) == "" {
		return false
	}
	if err := serveOrders(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
	}
	return true
}

func serveOrders() error {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv(replicaAddr), Username: "admin", Password: os.Getenv(replicaPassword)})
	d, err := redislock.New(client, &redislock.Options{Access: binding.AccessScripts})
	if err != nil {
		return err
	}
	locks, err := lock.New(d, "lk:{test/app}:", nil)
	if err != nil {
		return err
	}
	store, err := redisstore.New(client, "app:idempotency:", nil)
	if err != nil {
		return err
	}
	guard, err := idempotency.New(store, locks, &idempotency.Options{Caller: func(r *http.Request) string { return r.Header.Get("X-User") }})
	if err != nil {
		return err
	}
	mux := guard.NewMux()
	mux.HandleFunc("POST /orders/{id}", idempotency.Idempotent(idempotency.Policy{TTL: leaseTTL, Wait: 5 * time.Second}), func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		client.Incr(r.Context(), "entered:"+id)
		if r.Header.Get("X-Hold") != "" { // Until somebody pushes, or the replica is killed.
			client.BLPop(r.Context(), 0, "hold:"+id)
		}
		n, err := client.Incr(r.Context(), "effect:"+id).Result()
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "effect %d of %s", n, id)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr()) //nolint:forbidigo // It tells its address to the test.
	return (&http.Server{Handler: mux, ReadHeaderTimeout: patience}).Serve(listener)
}

// replica is a process of the application.
type replica struct {
	process *child.Process
	url     string
}

func startReplica(t *testing.T, server *redistest.Server) *replica {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), replicaAddr+"="+server.Addr(), replicaPassword+"="+server.AdminPassword())
	cmd.Stdout, cmd.Stderr = write, os.Stderr
	process, err := child.Start(cmd, syscall.SIGKILL)
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatalf("the replica tells no address: %v", err)
	}
	return &replica{process: process, url: "http://" + strings.TrimSpace(line)}
}

// order sends one order. Every attempt has a connection of its own, so that the client repeats nothing by itself.
func (r *replica) order(ctx context.Context, id string, hold bool) (status int, header http.Header, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/orders/"+id, strings.NewReader(`{"order":"`+id+`"}`))
	if err != nil {
		return 0, nil, "", err
	}
	req.Header.Set("Idempotency-Key", `"`+id+`"`)
	req.Header.Set("X-User", "ann")
	if hold {
		req.Header.Set("X-Hold", "yes")
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(raw), err
}

func TestDuplicatesOnThreeProcesses(t *testing.T) {
	server := redistest.Start(t, nil)
	admin := server.Admin(t)
	replicas := []*replica{startReplica(t, server), startReplica(t, server), startReplica(t, server)}
	const keys, workers = 150, 16
	var executed, replayed, inFlight, disconnected, degraded atomic.Int64
	ids := make(chan string)
	var working sync.WaitGroup
	for worker := range workers {
		working.Go(func() {
			for id := range ids {
				var sending sync.WaitGroup
				for i := range 2 * len(replicas) {
					sending.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						if (worker+i)%5 == 0 { // One of five leaves at some moment on the way.
							var leave context.CancelFunc
							ctx, leave = context.WithTimeout(ctx, time.Duration(1+i)*2*time.Millisecond)
							defer leave()
						}
						status, header, body, err := replicas[i%len(replicas)].order(ctx, id, false)
						switch {
						case errors.Is(err, context.DeadlineExceeded):
							disconnected.Add(1)
						case err != nil:
							t.Error(err)
						case header.Get("X-Idempotent-Degraded") != "":
							degraded.Add(1)
						case status == http.StatusConflict && header.Get("Retry-After") != "":
							inFlight.Add(1)
						case status != http.StatusCreated || body != "effect 1 of "+id:
							t.Errorf("order %s got %d %s", id, status, body)
						case header.Get("X-Idempotent-Replay") == "true":
							replayed.Add(1)
						default:
							executed.Add(1)
						}
					})
				}
				sending.Wait()
			}
		})
	}
	for i := range keys {
		ids <- fmt.Sprint("bulk-", i)
	}
	close(ids)
	working.Wait()
	// Each order is asked for once more, which waits for what a client that left has started.
	for i := range keys {
		id := fmt.Sprint("bulk-", i)
		if status, _, body, err := replicas[i%len(replicas)].order(t.Context(), id, false); err != nil || status != http.StatusCreated || body != "effect 1 of "+id {
			t.Errorf("order %s got %d %s, %v in the end", id, status, body, err)
		}
		if n, err := admin.Get(t.Context(), "effect:"+id).Int(); err != nil || n != 1 {
			t.Errorf("order %s had its effect %d times, %v", id, n, err)
		}
	}
	t.Logf("%d requests for %d keys on %d processes: %d executed, %d replayed, %d in flight, %d disconnected, %d degraded", keys*2*len(replicas), keys, len(replicas),
		executed.Load(), replayed.Load(), inFlight.Load(), disconnected.Load(), degraded.Load())
	if degraded.Load() != 0 {
		t.Errorf("%d answers were degraded with everything in order", degraded.Load())
	}
}

func TestOrderOfAKilledReplicaIsExecutedByAnother(t *testing.T) {
	server := redistest.Start(t, nil)
	admin := server.Admin(t)
	dying, other := startReplica(t, server), startReplica(t, server)
	ended := make(chan error, 1)
	go func() {
		_, _, _, err := dying.order(t.Context(), "killed", true)
		ended <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	await := func(what string, ok func() bool) {
		t.Helper()
		for !ok() {
			if !other.process.Outlives(ctx, 10*time.Millisecond) {
				t.Fatalf("%s: not in time", what)
			}
		}
	}
	await("the start of the order", func() bool { return admin.Get(ctx, "entered:killed").Val() == "1" })
	dying.process.Kill()
	if err := <-ended; err == nil {
		t.Error("the killed replica answered")
	}
	conflicts := 0
	await("the second execution", func() bool {
		status, header, body, err := other.order(ctx, "killed", false)
		if status == http.StatusConflict && header.Get("Retry-After") != "" {
			conflicts++
			return false
		}
		if err != nil || status != http.StatusCreated || body != "effect 1 of killed" || header.Get("X-Idempotent-Degraded") != "" {
			t.Fatalf("the repeat got %d %v %s, %v", status, header, body, err)
		}
		return true
	})
	if n := admin.Get(ctx, "entered:killed").Val(); n != "2" {
		t.Errorf("the order was begun %s times, want 2", n)
	}
	t.Logf("executed by the other replica after %d answers of 409", conflicts)
}
