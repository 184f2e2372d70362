// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

// The server falls silent, and a new connection would reach another one: what is held is renewed there long before pgx gives its goodbye to the silent one up,
// which takes it 15 s.
func TestASilentServerDoesNotHoldUpTheNextConnection(t *testing.T) {
	url := install(t, server)
	proxy := faultproxy.New(t, server.Addr())
	host, text, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	var moved atomic.Bool
	c := client(t, pgtest.At(t, url, proxy.Addr()), &pglock.Options{AttemptTimeout: time.Second, BeforeConnect: func(_ context.Context, config *pgx.ConnConfig) error {
		if moved.Load() {
			config.Host, config.Port = host, uint16(port)
		}
		return nil
	}})
	h := mustTry(t, c, 13*time.Second, 0)
	moved.Store(true)
	proxy.BlackHole()
	for err = h.Renew(t.Context(), 0); err != nil && h.Valid(); err = h.Renew(t.Context(), 0) {
		if !errors.Is(err, lock.ErrUnknown) && !errors.Is(err, lock.ErrUnavailable) {
			break
		}
	}
	if err != nil {
		t.Errorf("renewal at the other address: %v", err)
	}
	proxy.Heal()
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The configuration may have a handler of the application for notifications, of which pgx keeps only one.
func TestAHandlerOfTheApplicationIsNotInTheWay(t *testing.T) {
	url := install(t, server)
	admin := connect(t, url)
	config := parse(t, url)
	config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	d, err := pglock.New(t.Context(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	lost := make(chan struct{})
	req := request("order:1")
	req.OnLost = func(error) { close(lost) }
	mustAcquire(t, d, req)
	for _, payload := range []string{"", "freed", "freed x", "forced 1", "forced 9223372036854775808 x", "nonsense", "forced  "} {
		if _, err := admin.Exec(t.Context(), "SELECT pg_notify('lockstead_locks', $1)", payload); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.ForceRelease(t.Context(), driver.ForceReleaseRequest{Key: req.Key}); err != nil {
		t.Fatal(err)
	}
	await(t, "the news of the loss", lost)
}

// A lock that was waited for has one session, not one more that waits for what this process has itself.
func TestALockThatWasWaitedForHasOneSession(t *testing.T) {
	url := install(t, server)
	admin := connect(t, url)
	a, b := client(t, url, nil), client(t, url, nil)
	h := mustTry(t, a, longTTL, 0)
	got := waiting(t, admin, b)
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	if held, waits, all := advisory(t, admin, true), advisory(t, admin, false), sessions(t, admin); held != 1 || waits != 0 || all != 3 {
		t.Errorf("%d advisory locks, %d waits and %d sessions, want 1, 0, and 3: one of each process, and that of the lock", held, waits, all)
	}
	r.release(t)
	eventually(t, "the end of the session", func() bool { return sessions(t, admin) == 2 })
}

// Close comes while a session is being opened: nothing stays behind.
func TestCloseWhileConnectingLeavesNothing(t *testing.T) {
	url := install(t, server)
	admin := connect(t, url)
	proxy := faultproxy.New(t, server.Addr())
	for range 5 {
		d := open(t, pgtest.At(t, url, proxy.Addr()), nil)
		proxy.Cut()
		done := make(chan error, 1)
		go func() {
			_, err := d.Acquire(t.Context(), request("order:1"))
			done <- err
		}()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) {
			t.Errorf("acquire on a closed driver: %v", err)
		}
		_, err := d.Acquire(t.Context(), request("order:1"))
		wantClosed(t, err)
		_, err = d.Subscribe(t.Context(), request("order:1").Key)
		wantClosed(t, err)
		if _, err := admin.Exec(t.Context(), "DELETE FROM lockstead.locks"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the end of all sessions", func() bool { return sessions(t, admin) == 0 })
}

func wantClosed(t *testing.T, err error) {
	t.Helper()
	if fault, ok := errors.AsType[*driver.StoreError](err); !ok || fault.Reason != pglock.ReasonClosed || !fault.Lasting {
		t.Errorf("error is %v, want that the driver is closed", err)
	}
}
