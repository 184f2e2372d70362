// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// notes are the events that an observer was told of, one line each.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// take returns what was noted since the last time, when everything is quiet.
func (n *notes) take() []string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines
	n.lines = nil
	return lines
}

func (n *notes) observer() *lock.Observer {
	return &lock.Observer{
		AcquireEnd: func(_ context.Context, e lock.AcquireEndEvent) {
			passed := ""
			if e.PassedOn {
				passed = " passed on"
			}
			n.add("acquire %s after %s%s", e.Outcome, e.Waited, passed)
		},
		DoEnd: func(_ context.Context, e lock.DoEndEvent) {
			n.add("do ran %t panicked %t failed %t after %s", e.Ran, e.Panicked, e.Err != nil, e.Took)
		},
		ReleaseEnd: func(_ context.Context, e lock.ReleaseEndEvent) { n.add("release %s", e.Outcome) },
		HoldEnd:    func(_ context.Context, e lock.HoldEndEvent) { n.add("held %s until %q", e.Held, e.Reason) },
		Renew:      func(_ context.Context, e lock.RenewEvent) { n.add("renew %s after %s", e.Outcome, e.Took) },
		Cleanup:    func(_ context.Context, e lock.CleanupEvent) { n.add("cleanup %s", e.Outcome) },
		Fault:      func(_ context.Context, e lock.FaultEvent) { n.add("fault %s %s", e.Op, e.Reason) },
	}
}

func newObserved(t *testing.T) (*hooked, *lock.Client, *notes) {
	t.Helper()
	n := &notes{}
	c := clock.Monotonic()
	d := &hooked{Driver: memlock.New(&memlock.Options{Clock: c})}
	return d, newClient(t, d, &lock.Options{Clock: c, Observers: []*lock.Observer{nil, n.observer()}}), n
}

// want compares what the observer was told, in order. What is told of a background release comes from another goroutine, and so at any place.
func want(t *testing.T, n *notes, lines ...string) {
	t.Helper()
	backgroundLast := func(a, b string) int {
		switch first, second := strings.HasPrefix(a, "cleanup"), strings.HasPrefix(b, "cleanup"); {
		case first == second:
			return 0
		case first:
			return 1
		}
		return -1
	}
	got := n.take()
	slices.SortStableFunc(got, backgroundLast)
	lines = slices.Clone(lines)
	slices.SortStableFunc(lines, backgroundLast)
	if !slices.Equal(got, lines) {
		t.Errorf("the observer was told\n%q, want\n%q", got, lines)
	}
}

func fault(outcome error, op string) *driver.StoreError {
	return &driver.StoreError{Outcome: outcome, Op: op, Reason: "test"}
}

func TestObserverHearsTheOutcomeOfAnAcquire(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		wait   time.Duration
		held   bool
		close  bool
		fail   error
		cancel bool
		key    string
		want   []string
	}{
		"granted":                        {want: []string{"acquire granted after 1s"}},
		"held":                           {held: true, want: []string{"acquire held after 1s"}},
		"held for the whole wait":        {held: true, wait: 10 * time.Second, want: []string{"acquire held after 11s"}},
		"unavailable":                    {answer: fault(driver.ErrUnavailable, "acquire"), want: []string{"fault acquire test", "acquire unavailable after 1s"}},
		"unavailable while it waits":     {answer: fault(driver.ErrUnavailable, "acquire"), wait: time.Minute, want: []string{"fault acquire test", "acquire unavailable after 1s"}},
		"unknown":                        {answer: fault(driver.ErrUnknown, "acquire"), want: []string{"fault acquire test", "acquire unknown after 1s", "cleanup not-holder"}},
		"foreign":                        {answer: driver.ErrForeign, want: []string{"fault acquire foreign", "acquire foreign after 1s"}},
		"a driver that breaks the rules": {answer: errors.New("oops"), want: []string{"fault acquire unclassified", "acquire unknown after 1s"}},
		"driver of another backend":      {answer: driver.ErrBackendChanged, want: []string{"fault acquire backend-changed", "acquire backend-changed after 1s"}},
		"closed":                         {close: true, want: []string{"acquire closed after 0s"}},
		"backend changed":                {fail: lock.ErrBackendChanged, want: []string{"acquire backend-changed after 0s"}},
		"failed for another reason":      {fail: errors.New("moved"), want: []string{"acquire backend-changed after 0s"}},
		"cancelled":                      {cancel: true, want: []string{"acquire cancelled after 0s"}},
		"invalid":                        {key: "", wait: -1, want: []string{"acquire invalid after 0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, c, n := newObserved(t)
				if tc.held {
					if _, err := newClient(t, d.Driver, &lock.Options{Clock: clock.Monotonic()}).TryAcquire(t.Context(), "k", time.Hour, 0); err != nil {
						t.Fatal(err)
					}
				}
				d.beforeAcquire = func(context.Context, driver.AcquireRequest) error {
					pause(t, time.Second)
					return tc.answer
				}
				if tc.close {
					_ = c.Close(t.Context())
				}
				if tc.fail != nil {
					c.Fail(tc.fail)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tc.cancel {
					cancel(errors.New("the client has gone"))
				}
				h, _ := c.TryAcquire(ctx, "k", time.Hour, tc.wait)
				pause(t, time.Minute)
				want(t, n, tc.want...)
				if h != nil {
					_ = h.Release(t.Context())
				}
			})
		})
	}
}

func TestObserverHearsOfACallerThatLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c, n := newObserved(t)
		h := mustTake(t, c)
		n.take()
		ctx, cancel := context.WithCancelCause(t.Context())
		waitingFor(ctx, c, time.Hour)
		pause(t, 50*time.Millisecond)
		cancel(errors.New("the client has gone"))
		want(t, n, "acquire cancelled after 50ms")
		_, err := c.Acquire(t.Context(), "k", time.Hour, 0)
		if !errors.Is(err, lock.ErrInvalid) {
			t.Error(err)
		}
		want(t, n, "acquire invalid after 0s")
		got := waitingFor(t.Context(), c, time.Hour)
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
		next := <-got
		lines := n.take()
		slices.Sort(lines)
		if w := []string{"acquire granted after 0s passed on", `held 50ms until ""`, "release released"}; !slices.Equal(lines, w) {
			t.Errorf("the observer was told %q, want %q", lines, w)
		}
		d.beforePass = func(context.Context, driver.PassRequest) error { return fault(driver.ErrUnavailable, "pass") }
		got = waitingFor(t.Context(), c, time.Hour)
		if err := next.h.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if lines := n.take(); !slices.Contains(lines, "fault pass test") {
			t.Errorf("the observer was told %q, want the fault of the pass", lines)
		}
		next = <-got
		_ = next.h.Release(t.Context())
	})
}

func TestObserverHearsOnceHowEveryHoldEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(t *testing.T, d *hooked, c *lock.Client, h *lock.Handle)
		want []string
	}{
		"released": {func(*testing.T, *hooked, *lock.Client, *lock.Handle) {}, []string{`held 1s until ""`, "release released"}},
		"left": {
			func(t *testing.T, _ *hooked, _ *lock.Client, h *lock.Handle) {
				if err := h.Leave(t.Context(), time.Second); err != nil {
					t.Error(err)
				}
			},
			[]string{`held 1s until ""`, "release released"},
		},
		"left while the store is down": {
			func(t *testing.T, d *hooked, _ *lock.Client, h *lock.Handle) {
				d.beforeRenew = func(context.Context, driver.RenewRequest) error { return fault(driver.ErrUnknown, "renew") }
				if err := h.Leave(t.Context(), time.Second); !errors.Is(err, lock.ErrUnknown) {
					t.Error(err)
				}
			},
			[]string{"fault renew test", `held 1s until ""`, "release unknown"},
		},
		"out of time": {
			func(t *testing.T, _ *hooked, _ *lock.Client, _ *lock.Handle) { pause(t, 10*time.Second) },
			[]string{`held 9.8s until "deadline"`, "release lost"},
		},
		"another backend": {
			func(_ *testing.T, _ *hooked, c *lock.Client, _ *lock.Handle) { c.Fail(lock.ErrBackendChanged) },
			[]string{`held 1s until "backend-changed"`, "release lost"},
		},
		"not the holder": {
			func(t *testing.T, d *hooked, _ *lock.Client, h *lock.Handle) {
				if err := d.Release(t.Context(), driver.ReleaseRequest{Key: driver.Key{Prefix: testPrefix, Name: "k"}, ID: h.ID()}); err != nil {
					t.Error(err)
				}
			},
			[]string{`held 1s until "not-holder"`, "release lost"},
		},
		"not the holder at the renewal": {
			func(t *testing.T, d *hooked, _ *lock.Client, h *lock.Handle) {
				d.beforeRenew = func(context.Context, driver.RenewRequest) error { return driver.ErrNotHolder }
				if err := h.Renew(t.Context(), 0); !errors.Is(err, lock.ErrLost) {
					t.Error(err)
				}
				if err := h.Renew(t.Context(), 0); !errors.Is(err, lock.ErrLost) { // not sent
					t.Error(err)
				}
			},
			[]string{"renew lost after 0s", `held 1s until "not-holder"`, "release lost"},
		},
		"the store is down": {
			func(_ *testing.T, d *hooked, _ *lock.Client, _ *lock.Handle) {
				d.beforeRelease = func(context.Context, driver.ReleaseRequest) error {
					d.beforeRelease = nil
					return fault(driver.ErrUnknown, "release")
				}
			},
			[]string{"cleanup released", "fault release test", `held 1s until ""`, "release unknown"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, c, n := newObserved(t)
				h, err := c.TryAcquire(t.Context(), "k", 10*time.Second, 0)
				if err != nil {
					t.Fatal(err)
				}
				n.take()
				pause(t, time.Second)
				tc.end(t, d, c, h)
				synctest.Wait()
				for range 2 {
					_ = h.Release(t.Context())
				}
				pause(t, time.Minute)
				got, wanted := n.take(), slices.Sorted(slices.Values(tc.want))
				if slices.Sort(got); !slices.Equal(got, wanted) {
					t.Errorf("the observer was told %q, want %q", got, wanted)
				}
			})
		})
	}
}

// A grant that the store takes back before the caller has it is no hold.
func TestObserverHearsOfNoHoldThatNeverWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c, n := newObserved(t)
		d.afterAcquire = func(_ context.Context, req driver.AcquireRequest) { req.OnLost(errors.New("deleted by hand")) }
		if _, err := c.TryAcquire(t.Context(), "k", time.Hour, 0); !errors.Is(err, lock.ErrLost) {
			t.Error(err)
		}
		pause(t, time.Minute)
		want(t, n, "acquire lost after 0s", "cleanup released")
	})
}

func TestObserverHearsOfRenewals(t *testing.T) {
	for _, batches := range []bool{false, true} {
		t.Run(fmt.Sprint("in batches ", batches), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := newBatching(t)
				n := &notes{}
				var d driver.Driver = b.hooked
				if batches {
					d = b
				}
				answers := make(chan error, 3)
				answers <- fault(driver.ErrUnavailable, "renew")
				answers <- nil
				b.beforeRenew = func(context.Context, driver.RenewRequest) error {
					pause(t, 100*time.Millisecond)
					return <-answers
				}
				c := newClient(t, d, &lock.Options{Clock: clock.Monotonic(), Observers: []*lock.Observer{n.observer()}})
				err := c.Do(t.Context(), "k", func(ctx context.Context, _ *lock.Handle) error {
					pause(t, 20*time.Second)
					want(t, n, "acquire granted after 0s", "renew unavailable after 100ms", "fault renew test", "renew renewed after 100ms")
					answers <- driver.ErrNotHolder
					<-ctx.Done()
					told := slices.Sorted(slices.Values(n.take()))
					if len(told) != 2 || !strings.HasSuffix(told[0], `until "not-holder"`) || told[1] != "renew lost after 100ms" {
						t.Errorf("the observer was told %q, want the loss and the renewal that brought it", told)
					}
					return nil
				}, &lock.DoOptions{TTL: 30 * time.Second})
				if !errors.Is(err, lock.ErrLost) {
					t.Error(err)
				}
			})
		})
	}
}
