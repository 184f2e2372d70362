// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package locktest is the conformance suite of the lock backends: what package lock promises, asked of a driver and its real
// server. A backend calls Run with a Harness:
//
//	func TestConformance(t *testing.T) {
//		locktest.Run(t, locktest.Harness{
//			NewDriver: func(t *testing.T) driver.Driver { … },
//			NewFaulty: func(t *testing.T) (driver.Driver, locktest.Fault) { … },
//			NewPrefix: func(t *testing.T) string { … },
//			Remove:    func(t *testing.T, key driver.Key) { … },
//		})
//	}
//
// The suite uses real time, since the servers do. No test asserts how long something took; where a bound is needed, a context far longer than
// any healthy run ends the wait.
package locktest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Harness connects the suite to one backend. All functions may be called from any subtest; what they start ends by t.Cleanup.
type Harness struct {
	// NewDriver opens the store as a process of its own would. All drivers of a Harness share one store.
	NewDriver func(t *testing.T) driver.Driver
	// NewFaulty opens the store over a path that the suite can disturb.
	NewFaulty func(t *testing.T) (driver.Driver, Fault)
	// NewPrefix returns a prefix that no other test uses, ready for use in the store.
	NewPrefix func(t *testing.T) string
	// Remove takes the record of a key out of the store by hand, as an administrator would.
	Remove func(t *testing.T, key driver.Key)
	// NoNotification says that the store cannot tell when a key becomes free; the driver is then no driver.Waiter, and the test of the wake-up is
	// replaced by one of the poll.
	NoNotification bool
	// NoPass says that the driver is no driver.Passer. The suite fails where this is not true, so that no test is left out by accident.
	NoPass bool
	// NoList and NoForceRelease say that the driver is no driver.Lister and no driver.ForceReleaser; they are checked as NoPass is.
	NoList, NoForceRelease bool
}

// Fault disturbs the path between a driver and its store. Every method stays in force until Heal.
type Fault interface {
	// HoldResponses lets requests through and keeps the answers back.
	HoldResponses()
	// DropResponses lets requests through and ends the connection instead of answering.
	DropResponses()
	// Refuse lets nothing through: a server that is down.
	Refuse()
	// Heal lets everything through again, the answers kept back included.
	Heal()
}

// patience is far longer than any healthy step takes, and shorter than the lock TTL of the tests that must not be saved by expiry.
const patience = 30 * time.Second

// longTTL does not run out within a test.
const longTTL = 10 * time.Minute

// Run runs the whole suite as subtests of t.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"exclusion", exclusionTests},
		{"expiry", expiryTests},
		{"release", releaseTests},
		{"renew", renewTests},
		{"leave", leaveTests},
		{"outcome", outcomeTests},
		{"wait", waitTests},
		{"pass", passTests(h)},
		{"list", listTests(h)},
		{"force", forceTests(h)},
		{"token", tokenTests},
		{"key", keyTests},
		{"duration", durationTests},
		{"client", clientTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, tc := range group.tests {
				t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) { runOne(t, h, tc) })
			}
		})
	}
}

type test struct {
	name string
	run  func(t *testing.T, s *suite)
}

// suite is what one test has.
type suite struct {
	Harness
	ctx    context.Context
	prefix string
	limits driver.Limits
}

// runOne runs one test in a function of its own, so that its clean-up is over when the leak check looks.
func runOne(t *testing.T, h Harness, tc test) {
	before := goleak.IgnoreCurrent()
	t.Run("run", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		s := &suite{Harness: h, ctx: ctx, prefix: h.NewPrefix(t)}
		s.limits = h.NewDriver(t).Limits()
		tc.run(t, s)
	})
	if err := goleak.Find(before); err != nil {
		t.Errorf("goroutines left behind: %v", err)
	}
}

// short is a TTL that a test can wait for, and that leaves a busy store time for its answers: an attempt has a quarter of it.
func (s *suite) short() time.Duration { return max(700*time.Millisecond, 2*s.limits.MinTTL) }

// client makes a client on a driver of its own, as another replica would have it.
func (s *suite) client(t *testing.T, options *lock.Options) *lock.Client {
	t.Helper()
	return s.clientOn(t, s.NewDriver(t), options)
}

func (s *suite) clientOn(t *testing.T, d driver.Driver, options *lock.Options) *lock.Client {
	t.Helper()
	var o lock.Options
	if options != nil {
		o = *options
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	c, err := lock.New(d, s.prefix, &o)
	if err != nil {
		t.Fatalf("lock.New: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Logf("close: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("close of the driver: %v", err)
		}
	})
	return c
}

func (s *suite) key(name string) driver.Key { return driver.Key{Prefix: s.prefix, Name: name} }

// mustTry takes a free key.
func mustTry(t *testing.T, ctx context.Context, c *lock.Client, key string, ttl, wait time.Duration) *lock.Handle {
	t.Helper()
	h, err := c.TryAcquire(ctx, key, ttl, wait)
	if err != nil {
		t.Fatalf("TryAcquire(%q, ttl %s, wait %s): %v", key, ttl, wait, err)
	}
	if !h.Valid() {
		t.Fatalf("TryAcquire(%q) returned a handle that is not valid: %v", key, h.Err())
	}
	return h
}

// mustBeHeld fails unless somebody holds key.
func mustBeHeld(t *testing.T, ctx context.Context, c *lock.Client, key string) {
	t.Helper()
	h, err := c.TryAcquire(ctx, key, longTTL, 0)
	if err == nil {
		_ = h.Release(ctx)
		t.Fatalf("key %q was free, want it held", key)
	}
	wantError(t, err, lock.ErrHeld)
}

func mustRelease(t *testing.T, ctx context.Context, h *lock.Handle) {
	t.Helper()
	if err := h.Release(ctx); err != nil {
		t.Fatalf("Release(%q): %v", h.Key(), err)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want one that matches %q", err, want)
	}
}

// wantLost fails unless the handle is over and its context ended with a loss for the reason.
func wantLost(t *testing.T, h *lock.Handle, reasons ...lock.LossReason) {
	t.Helper()
	if h.Valid() {
		t.Fatalf("handle of %q is still valid", h.Key())
	}
	var lost *lock.LostError
	if cause := context.Cause(h.Context()); !errors.As(cause, &lost) {
		t.Fatalf("cause of the handle's context is %v, want a *lock.LostError", cause)
	}
	if slices.Contains(reasons, lost.Reason) {
		return
	}
	t.Fatalf("lost for %q, want one of %q", lost.Reason, reasons)
}

// await fails when done does not close in good time.
func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("%s did not happen within %s", what, patience)
	}
}

func randomID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}
