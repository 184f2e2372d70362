// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock/clocktest"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

// patience is far longer than any healthy step takes.
const patience = 30 * time.Second

// stuckLog is a handler that takes a record of a lost lock and does not return before it is freed.
type stuckLog struct {
	slog.Handler
	reached, free chan struct{}
}

func (s *stuckLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "lock lost" {
		s.reached <- struct{}{}
		<-s.free
	}
	return nil
}

func (*stuckLog) Enabled(context.Context, slog.Level) bool { return true }

// inTime fails when step does not return.
func inTime(t *testing.T, what string, step func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		step()
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("%s waits for the log", what)
	}
}

// Each case loses two handles, "a" and "b", while the log takes nothing.
func TestALogThatBlocksHoldsUpNoHandle(t *testing.T) {
	for name, tc := range map[string]struct {
		lose   func(c *lock.Client, hand *clocktest.Hand, onLost map[string]func(error))
		reason lock.LossReason
	}{
		"a deadline that a look finds": {
			func(_ *lock.Client, hand *clocktest.Hand, _ map[string]func(error)) { hand.Advance(time.Hour) }, lock.LossDeadline,
		},
		"a store that tells": {
			func(_ *lock.Client, _ *clocktest.Hand, onLost map[string]func(error)) {
				onLost["a"](errors.New("edited by hand"))
				onLost["b"](errors.New("edited by hand"))
			}, lock.LossStoreChanged,
		},
		"a client that fails": {
			func(c *lock.Client, _ *clocktest.Hand, _ map[string]func(error)) { c.Fail(lock.ErrBackendChanged) }, lock.LossBackendChanged,
		},
	} {
		t.Run(name, func(t *testing.T) {
			hand := &clocktest.Hand{}
			onLost := make(map[string]func(error))
			d := &hooked{Driver: memlock.New(&memlock.Options{Clock: hand})}
			d.beforeAcquire = func(_ context.Context, req driver.AcquireRequest) error {
				onLost[req.Key.Name] = req.OnLost
				return nil
			}
			log := &stuckLog{Handler: slog.DiscardHandler, reached: make(chan struct{}, 2), free: make(chan struct{})}
			c := newClient(t, d, &lock.Options{Clock: hand, Logger: slog.New(log)})
			a, b := mustTry(t, c, "a", time.Minute), mustTry(t, c, "b", time.Minute)

			inTime(t, "the loss", func() { tc.lose(c, hand, onLost) })
			for _, h := range []*lock.Handle{a, b} {
				inTime(t, "Valid", func() {
					if h.Valid() {
						t.Errorf("the lock on %q is still valid", h.Key())
					}
				})
				inTime(t, "Err", func() {
					var lost *lock.LostError
					if !errors.As(h.Err(), &lost) || lost.Reason != tc.reason {
						t.Errorf("the lock on %q ended with %v, want reason %q", h.Key(), h.Err(), tc.reason)
					}
				})
				inTime(t, "Remaining", func() { h.Remaining() })
				inTime(t, "Renew", func() {
					if err := h.Renew(t.Context(), 0); !errors.Is(err, lock.ErrLost) {
						t.Errorf("renewal of a lost lock: %v", err)
					}
				})
				inTime(t, "Release", func() { _ = h.Release(t.Context()) })
			}
			inTime(t, "the log", func() { <-log.reached; <-log.reached })

			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := c.Close(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("close while records of lost locks are being written: %v", err)
			}
			close(log.free)
			inTime(t, "Close", func() {
				if err := c.Close(t.Context()); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		})
	}
}
