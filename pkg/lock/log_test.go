// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

// journal is where a log goes, from any goroutine.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

// take returns what was logged since the last time, when everything is quiet.
func (j *journal) take() string {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	text := j.text.String()
	j.text.Reset()
	return text
}

func TestTheLogHasKeyAndTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged journal
		leaveOutTime := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		cl := clock.Monotonic()
		d := &hooked{Driver: memlock.New(&memlock.Options{Clock: cl})}
		c := newClient(t, d, &lock.Options{
			Clock: cl, Owner: "me", Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: leaveOutTime})),
		})
		want := func(line string) {
			t.Helper()
			if got := logged.take(); !strings.HasPrefix(got, line) || strings.Count(got, "\n") != 1 {
				t.Errorf("logged\n%swant\n%s…", got, line)
			}
		}
		h := mustTry(t, c, "k", 10*time.Second)
		want(`level=DEBUG msg="lock acquired" key=k token=` + h.Token().String() + ` ttl=10s waited=0s`)
		_, _ = c.TryAcquire(t.Context(), "k", 0, time.Second)
		want(`level=WARN msg="wait for a lock ended without it" key=k waited=1s error="lock \"k\" is held by me`)
		_, _ = c.TryAcquire(t.Context(), "k", 0, 0)
		want(`level=DEBUG msg="lock not acquired" key=k waited=0s error="lock \"k\" is held by me`)
		pause(t, time.Second)
		_ = h.Release(t.Context())
		want(`level=DEBUG msg="lock released" key=k token=` + h.Token().String() + ` held=2s`)

		h = mustTry(t, c, "k", 10*time.Second)
		logged.take()
		pause(t, 10*time.Second)
		want(`level=WARN msg="lock lost" key=k token=` + h.Token().String() + ` reason=deadline held=9.8s`)
		d.beforeAcquire = func(context.Context, driver.AcquireRequest) error { return fault(driver.ErrUnavailable, "acquire") }
		_, _ = c.TryAcquire(t.Context(), "k", 0, time.Minute)
		want(`level=WARN msg="wait for a lock ended without it" key=k waited=0s error="acquire: lock store is unavailable (test)"`)
	})
}

// A test, or a program that has flushed its log, must not find a record after Close.
func TestNothingIsLoggedOfALossAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged journal
		cl := clock.Monotonic()
		c := newClient(t, memlock.New(&memlock.Options{Clock: cl}), &lock.Options{Clock: cl, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		h := mustTry(t, c, "k", 10*time.Second)
		if err := c.Close(t.Context()); err == nil {
			t.Error("Close did not tell of the handle that is held")
		}
		logged.take()
		pause(t, time.Minute)
		if h.Valid() {
			t.Error("the handle is valid after its TTL")
		}
		if got := logged.take(); got != "" {
			t.Errorf("logged after Close: %s", got)
		}
	})
}
