// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

var hookNames = []string{"AcquireStart", "AcquireEnd", "DoStart", "DoEnd", "ReleaseStart", "ReleaseEnd", "HoldEnd", "Renew", "Cleanup", "Fault"}

// misbehaving is an observer that calls f in every hook.
func misbehaving(f func(hook string)) *lock.Observer {
	return &lock.Observer{
		AcquireStart: func(ctx context.Context, _ lock.AcquireStartEvent) context.Context { f("AcquireStart"); return ctx },
		AcquireEnd:   func(context.Context, lock.AcquireEndEvent) { f("AcquireEnd") },
		DoStart:      func(ctx context.Context, _ lock.DoStartEvent) context.Context { f("DoStart"); return ctx },
		DoEnd:        func(context.Context, lock.DoEndEvent) { f("DoEnd") },
		ReleaseStart: func(ctx context.Context, _ lock.ReleaseStartEvent) context.Context { f("ReleaseStart"); return ctx },
		ReleaseEnd:   func(context.Context, lock.ReleaseEndEvent) { f("ReleaseEnd") },
		HoldEnd:      func(context.Context, lock.HoldEndEvent) { f("HoldEnd") },
		Renew:        func(context.Context, lock.RenewEvent) { f("Renew") },
		Cleanup:      func(context.Context, lock.CleanupEvent) { f("Cleanup") },
		Fault:        func(context.Context, lock.FaultEvent) { f("Fault") },
	}
}

// everything makes a client do what it tells observers of. Each part is a goroutine, since a hook may stop it.
func everything(ctx context.Context, d *hooked, c *lock.Client) (parts []func() error) {
	lost := fault(driver.ErrUnknown, "acquire")
	d.beforeAcquire = func(_ context.Context, req driver.AcquireRequest) error {
		if req.Key.Name == "unknown" {
			return lost
		}
		return nil
	}
	hold := func(key string) error {
		h, err := c.TryAcquire(ctx, key, 10*time.Second, 0)
		if err != nil {
			return err
		}
		return errors.Join(h.Renew(ctx, 0), h.Release(ctx))
	}
	return []func() error{
		func() error { return hold("plain") },
		func() error {
			if err := hold("unknown"); !errors.Is(err, lost) {
				return fmt.Errorf("%w, want the fault of the store", err)
			}
			return nil
		},
		func() error { return c.Do(ctx, "do", func(context.Context, *lock.Handle) error { return nil }, nil) },
	}
}

// An observer may hang in any hook: every lock still ends in time, the locks that are renewed stay, and the client can be closed.
func TestAnObserverThatHangsMovesNoLock(t *testing.T) {
	for _, hook := range hookNames {
		t.Run(hook, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				var armed atomic.Bool
				var hung atomic.Int32
				observer := misbehaving(func(h string) {
					if armed.Load() && h == hook {
						hung.Add(1)
						<-release
					}
				})
				cl := clock.Monotonic()
				d := &hooked{Driver: memlock.New(&memlock.Options{Clock: cl})}
				c := newClient(t, d, &lock.Options{Clock: cl, Observers: []*lock.Observer{observer}})
				other := newClient(t, d.Driver, &lock.Options{Clock: cl})

				short, long := mustTry(t, c, "short", 10*time.Second), mustTry(t, c, "long", time.Hour)
				working := make(chan context.Context, 50)
				for i := range cap(working) {
					go func() {
						_ = c.Do(t.Context(), fmt.Sprint("renewed", i), func(ctx context.Context, _ *lock.Handle) error {
							working <- ctx
							<-ctx.Done()
							return nil
						}, &lock.DoOptions{TTL: 3 * time.Second})
					}()
				}
				synctest.Wait()
				armed.Store(true)
				parts := everything(t.Context(), d, c)
				for _, part := range parts {
					go func() { _ = part() }()
				}
				pause(t, 9799*time.Millisecond)
				if !short.Valid() {
					t.Errorf("the lock ended before its time: %v", short.Err())
				}
				pause(t, time.Millisecond)
				if short.Context().Err() == nil {
					t.Error("the context of the lock did not end in time")
				}
				pause(t, 200*time.Millisecond)
				mustTry(t, other, "short", time.Hour)
				pause(t, time.Minute)
				for range cap(working) {
					ctx := <-working
					if ctx.Err() != nil {
						t.Fatalf("a lock that is renewed ended: %v", context.Cause(ctx))
					}
					working <- ctx
				}
				// What hangs before it told the store leaves the key to the TTL.
				mustTry(t, other, "plain", time.Hour)

				start := time.Now()
				c.Fail(lock.ErrBackendChanged)
				if !errors.Is(context.Cause(long.Context()), lock.ErrBackendChanged) {
					t.Errorf("the context of the lock ended with %v", context.Cause(long.Context()))
				}
				for range cap(working) {
					if ctx := <-working; ctx.Err() == nil {
						t.Fatal("the context of a lock that is renewed did not end with the client")
					}
				}
				if err := c.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("the end of the client took %s", took)
				}
				synctest.Wait()
				if hung.Load() == 0 {
					t.Error("no hook hung: the test shows nothing")
				}
				close(release)
			})
		})
	}
}

func mustTry(t *testing.T, c *lock.Client, key string, ttl time.Duration) *lock.Handle {
	t.Helper()
	h, err := c.TryAcquire(t.Context(), key, ttl, 0)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAnObserverThatPanicsIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told notes
		var logged journal
		cl := clock.Monotonic()
		d := &hooked{Driver: memlock.New(&memlock.Options{Clock: cl})}
		c := newClient(t, d, &lock.Options{
			Clock: cl, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
			Observers: []*lock.Observer{misbehaving(func(hook string) { panic("bad " + hook) }), misbehaving(func(hook string) { told.add("%s", hook) })},
		})
		h := mustTry(t, c, "lost", 10*time.Second)
		for _, part := range everything(t.Context(), d, c) {
			if err := part(); err != nil {
				t.Error(err)
			}
		}
		pause(t, time.Minute)
		if err := h.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release after the loss: %v", err)
		}
		log, heard := logged.take(), strings.Join(told.take(), " ")
		for _, hook := range hookNames {
			if !strings.Contains(log, `level=ERROR msg="an observer of locks panicked" hook=`+hook+` panic="bad `+hook) {
				t.Errorf("the panic in %s was not logged", hook)
			}
			if !strings.Contains(heard, hook) {
				t.Errorf("the observer behind the one that panicked heard nothing in %s", hook)
			}
		}
	})
}

func TestAPanicOfTheWorkIsToldAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, n := newObserved(t)
		defer func() {
			if p := recover(); p != "the work" {
				t.Errorf("recovered %v, want the panic of the work", p)
			}
			want(t, n, "acquire granted after 0s", `held 0s until ""`, "release released", "do ran true panicked true failed false after 0s")
		}()
		_ = c.Do(t.Context(), "k", func(context.Context, *lock.Handle) error { panic("the work") }, nil)
	})
}

type spanKey struct{}

// Requests belong to the call that sends them, and the work to Do, not to the acquire that is over.
func TestStartHooksGiveTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		span := func(ctx context.Context) any { return ctx.Value(spanKey{}) }
		open := func(ctx context.Context, name string) context.Context {
			return context.WithValue(ctx, spanKey{}, fmt.Sprint(span(ctx), ">", name))
		}
		is := func(where string, ctx context.Context, want any) {
			t.Helper()
			if got := span(ctx); got != want {
				t.Errorf("%s is in %v, want %v", where, got, want)
			}
		}
		cl := clock.Monotonic()
		d := &hooked{Driver: memlock.New(&memlock.Options{Clock: cl})}
		d.beforeAcquire = func(ctx context.Context, _ driver.AcquireRequest) error {
			is("the request", ctx, "app>do>acquire")
			return nil
		}
		d.beforeRelease = func(ctx context.Context, _ driver.ReleaseRequest) error {
			is("the release", ctx, "app>do>release")
			return nil
		}
		c := newClient(t, d, &lock.Options{Clock: cl, Observers: []*lock.Observer{{
			DoStart:      func(ctx context.Context, _ lock.DoStartEvent) context.Context { return open(ctx, "do") },
			DoEnd:        func(ctx context.Context, _ lock.DoEndEvent) { is("DoEnd", ctx, "app>do") },
			AcquireStart: func(ctx context.Context, _ lock.AcquireStartEvent) context.Context { return open(ctx, "acquire") },
			AcquireEnd:   func(ctx context.Context, _ lock.AcquireEndEvent) { is("AcquireEnd", ctx, "app>do>acquire") },
			ReleaseStart: func(ctx context.Context, _ lock.ReleaseStartEvent) context.Context { return open(ctx, "release") },
			ReleaseEnd:   func(ctx context.Context, _ lock.ReleaseEndEvent) { is("ReleaseEnd", ctx, "app>do>release") },
			HoldEnd:      func(ctx context.Context, _ lock.HoldEndEvent) { is("HoldEnd", ctx, "app>do") },
		}, {
			AcquireStart: func(context.Context, lock.AcquireStartEvent) context.Context { return nil },
		}}})
		err := c.Do(context.WithValue(t.Context(), spanKey{}, "app"), "k", func(ctx context.Context, h *lock.Handle) error {
			is("the work", ctx, "app>do")
			is("the handle", h.Context(), "app>do")
			return nil
		}, nil)
		if err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkObserver(b *testing.B) {
	for name, observers := range map[string][]*lock.Observer{"none": nil, "every hook": {misbehaving(func(string) {})}} {
		b.Run(name, func(b *testing.B) {
			c, err := lock.New(memlock.New(nil), testPrefix, &lock.Options{Observers: observers})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				cycle(b, c)
			}
		})
	}
}

func cycle(tb testing.TB, c *lock.Client) {
	h, err := c.TryAcquire(context.Background(), "k", time.Minute, 0)
	if err == nil {
		err = errors.Join(h.Renew(context.Background(), 0), h.Release(context.Background()))
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func TestObserversCostNoMemory(t *testing.T) {
	allocs := func(observers ...*lock.Observer) float64 {
		c := newClient(t, memlock.New(nil), &lock.Options{Observers: observers})
		return testing.AllocsPerRun(200, func() { cycle(t, c) })
	}
	none := allocs()
	if n := allocs(misbehaving(func(string) {})); n > none {
		t.Errorf("%v allocations with an observer that does nothing, %v without one", n, none)
	}
}
