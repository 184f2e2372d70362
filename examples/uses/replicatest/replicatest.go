// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicatest runs the examples as an application runs: several replicas that open the binding Secret of their LockNamespace, on
// a real Redis server that is set up as the operator sets one up. A replica is a client with connections of its own, or, where a test kills
// one, a process of its own.
package replicatest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
	"github.com/lockstead/lockstead/pkg/lockstead"
)

// Patience is far longer than any healthy step takes.
const Patience = 30 * time.Second

// LongTTL does not run out within a test.
const LongTTL = 10 * time.Minute

const prefix = "lk:{shop/shop}:"

// Namespace is the LockNamespace of one application.
type Namespace struct {
	// Server keeps the locks.
	Server *redistest.Server
	// dir is where the binding Secret is mounted.
	dir string
}

// Start starts a server and writes the binding that its replicas mount.
func Start(t *testing.T) *Namespace {
	t.Helper()
	const user = "lk-shop"
	password := rand.Text()
	n := &Namespace{
		Server: redistest.Start(t, &redistest.Options{Users: []redisproto.User{{
			Name: user, PasswordHashes: []string{redisproto.PasswordHash(password)}, Rules: redisproto.TenantRules(prefix, binding.AccessFunctions),
		}}}),
		dir: t.TempDir(),
	}
	n.Server.Prepare(t, prefix, redisproto.Epoch{Number: 1, MaxTTL: time.Hour, SelfArm: true})
	host, portText, err := net.SplitHostPort(n.Server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	b := &binding.Binding{
		Type: binding.TypeRedis, LockNamespace: "shop/shop", Prefix: prefix, Instance: "instance-1", TTLDefault: 30 * time.Second, TTLMax: time.Hour,
		Redis: &binding.Redis{Host: host, Port: port, Username: user, Password: password, Access: binding.AccessFunctions},
	}
	entries, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range entries {
		if err := os.WriteFile(filepath.Join(n.dir, name), value, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// Open opens the binding as one more replica, which is closed with the test.
func (n *Namespace) Open(t *testing.T) *lock.Client {
	t.Helper()
	client, err := open(t.Context(), n.dir, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := client.Close(ctx); err != nil {
			t.Logf("close of a replica: %v", err)
		}
	})
	return client.Client
}

func open(ctx context.Context, dir string, log *slog.Logger) (*lockstead.Client, error) {
	return lockstead.Open(ctx, &lockstead.Options{BindingDir: dir, Logger: log})
}

// Hold takes a key as a replica that is in the middle of its work. The function that it returns ends that work.
func (n *Namespace) Hold(t *testing.T, key string) (release func()) {
	t.Helper()
	h, err := n.Open(t).TryAcquire(t.Context(), key, LongTTL, 0)
	if err != nil {
		t.Fatal(err)
	}
	release = func() {
		if err := h.Release(context.WithoutCancel(t.Context())); err != nil && !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("release of %q: %v", key, err)
		}
	}
	t.Cleanup(release)
	return release
}

// Abandon takes a key as a replica that dies at once: nobody releases it, and it ends by its TTL.
func (n *Namespace) Abandon(t *testing.T, key string, ttl time.Duration) {
	t.Helper()
	client, err := open(t.Context(), n.dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.TryAcquire(t.Context(), key, ttl, 0); err != nil {
		t.Fatal(err)
	}
	// Close leaves a lock that is held to its TTL, and says so.
	if err := client.Close(t.Context()); err == nil {
		t.Fatal("the client was closed with nothing held")
	}
}

// Remove takes the lock of a key away from its holder, as an administrator would.
func (n *Namespace) Remove(t *testing.T, key string) {
	t.Helper()
	if err := n.Server.Admin(t).Del(t.Context(), redisproto.LockKey(prefix, key)).Err(); err != nil {
		t.Fatal(err)
	}
}

// Context ends long after anything that a test waits for.
func Context(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*Patience)
	t.Cleanup(cancel)
	return ctx
}

// AtOnce calls one function from many goroutines that start together, and returns what each call returned.
func AtOnce[T any](calls int, call func(i int) T) []T {
	results, start := make([]T, calls), make(chan struct{})
	var group sync.WaitGroup
	for i := range calls {
		group.Go(func() {
			<-start
			results[i] = call(i)
		})
	}
	close(start)
	group.Wait()
	return results
}

// Gap is the time between a read and the write that follows from it. Without exclusion two calls meet in it.
type Gap struct{ meeting chan struct{} }

// NewGap makes one.
func NewGap() Gap { return Gap{make(chan struct{})} }

// Stay returns when another call has come too, or after a moment in which none did.
func (g Gap) Stay() {
	moment := time.NewTimer(250 * time.Millisecond)
	defer moment.Stop()
	select {
	case g.meeting <- struct{}{}:
	case <-g.meeting:
	case <-moment.C:
	}
}

// Log is a logger and what was written to it.
type Log struct {
	*slog.Logger

	mu    sync.Mutex
	lines bytes.Buffer
}

// NewLog makes an empty one.
func NewLog() *Log {
	l := &Log{}
	l.Logger = slog.New(slog.NewTextHandler(l, nil))
	return l
}

// Write takes a line from the handler.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

// Count tells how many lines have all the words.
func (l *Log) Count(words ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
lines:
	for line := range strings.Lines(l.lines.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		count++
	}
	return count
}
