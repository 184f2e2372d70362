// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package exclusive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func recordKeys(keys *[]string) func(driver.AcquireRequest) error {
	return func(req driver.AcquireRequest) error {
		*keys = append(*keys, req.Key.Name)
		return nil
	}
}

func slotKey(slot time.Time) string {
	return lock.Key("job", "report", slot.UTC().Format("20060102T150405.999999999Z"))
}

func TestSkipIsLoggedAtInfoWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, b := newReplica(t, s, 0), newReplica(t, s, 0)
		a.want(t, exclusive.Ran, func(context.Context, *lock.Handle) error {
			b.want(t, exclusive.SkippedHeld, work, nil)
			return nil
		}, nil)
		if got := b.logs.String(); strings.Count(got, "level=INFO") != 1 || !strings.Contains(got, "job=report") || !strings.Contains(got, "is held by") {
			t.Errorf("log of the skip: %q", got)
		}
		if a.logs.Len() > 0 {
			t.Errorf("log of the run: %q", a.logs.String())
		}
		b.want(t, exclusive.Ran, work, nil)
	})
}

func TestMinHoldCountsFromTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newStore(), 0)
		o := &exclusive.JobOptions{MinHold: 50 * time.Second}
		r.want(t, exclusive.Ran, taking(20*time.Second), o)
		if left := r.remaining(t, "job:report"); left != 30*time.Second {
			t.Errorf("after a job of 20 s the key stays locked for %s, want 30 s", left)
		}
		pause(t, 30*time.Second-1)
		r.want(t, exclusive.SkippedHeld, work, o)
		pause(t, 1)
		r.want(t, exclusive.Ran, taking(time.Minute), o)
		r.free(t, "job:report")
		r.want(t, exclusive.Ran, taking(50*time.Second-1), o)
		if left := r.remaining(t, "job:report"); left != lock.MinTTL {
			t.Errorf("with 1 ns to go the key stays locked for %s, want the minimum of %s", left, lock.MinTTL)
		}
	})
}

// The process dies in the run, or cannot tell the store of its end: the keys stay locked for long enough all the same.
func TestMinHoldAndSlotHoldWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, b := newReplica(t, s, 0), newReplica(t, s, 0)
		slot := a.now()
		s.failRenewals()
		o := &exclusive.JobOptions{Slot: slot, MinHold: 45 * time.Second}
		a.want(t, exclusive.Ran, taking(time.Second), o)
		if left := b.remaining(t, "job:report"); left < 44*time.Second {
			t.Errorf("the job's key stays locked for %s, want MinHold", left)
		}
		if left := b.remaining(t, slotKey(slot)); left != 69*time.Second {
			t.Errorf("the slot's key stays locked for %s, want 69 s: tolerance and skew less the job's second", left)
		}
	})
}

func TestFailedJob(t *testing.T) {
	failure := errors.New("no paper")
	for name, hold := range map[string]bool{"may be repeated": false, "keeps its hold": true} {
		for how, fn := range map[string]func(context.Context, *lock.Handle) error{
			"error": func(context.Context, *lock.Handle) error { return failure },
			"panic": func(context.Context, *lock.Handle) error { panic(failure) },
		} {
			t.Run(how+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStore()
					a, b := newReplica(t, s, 0), newReplica(t, s, 0)
					slot := a.now()
					o := &exclusive.JobOptions{Slot: slot, MinHold: 45 * time.Second, HoldAfterFailure: hold}
					if how == "panic" {
						func() {
							defer func() {
								if p := recover(); p != failure { //nolint:errorlint // The very value.
									t.Errorf("recovered %v, want the panic of the job", p)
								}
							}()
							_, _ = a.RunExclusive(t.Context(), "report", fn, o)
						}()
						if e := a.last(); e.Outcome != exclusive.Panicked {
							t.Errorf("the observer was told %q", e.Outcome)
						}
					} else if err := a.wantError(t, exclusive.Failed, fn, o); !errors.Is(err, failure) {
						t.Errorf("error is %v, want that of the job", err)
					}
					if hold {
						b.want(t, exclusive.SkippedSlot, work, o)
						b.want(t, exclusive.SkippedHeld, work, &exclusive.JobOptions{})
						return
					}
					b.free(t, "job:report")
					b.want(t, exclusive.Ran, work, o)
				})
			})
		}
	}
}

// An error of the job that looks like an answer of the store is still an error of the job.
func TestJobThatFailsOnALockOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newStore(), 0)
		for _, own := range []error{lock.ErrHeld, lock.ErrLost, lock.ErrInvalid} {
			err := r.wantError(t, exclusive.Failed, func(context.Context, *lock.Handle) error { return own }, &exclusive.JobOptions{Slot: r.now()})
			if !errors.Is(err, own) {
				t.Errorf("error is %v, want %v", err, own)
			}
		}
	})
}

func TestStoreThatIsDownIsNoSuccess(t *testing.T) {
	for _, outcome := range []error{driver.ErrUnavailable, driver.ErrUnknown} {
		for _, failing := range []string{"job:report:", "job:report"} {
			t.Run(outcome.Error()+" at "+failing, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStore()
					r := newReplica(t, s, 0)
					slot := r.now()
					s.beforeAcquire = func(req driver.AcquireRequest) error {
						if strings.HasPrefix(req.Key.Name, "job:report:") == (failing == "job:report:") {
							return &driver.StoreError{Outcome: outcome, Op: "acquire", Reason: "test"}
						}
						return nil
					}
					err := r.wantError(t, exclusive.NotRun, func(context.Context, *lock.Handle) error {
						t.Error("the job ran")
						return nil
					}, &exclusive.JobOptions{Slot: slot, MinHold: time.Second, HoldAfterFailure: true})
					if !errors.Is(err, outcome) {
						t.Errorf("error is %v, want %v", err, outcome)
					}
					r.free(t, slotKey(slot))
					s.beforeAcquire = nil
					r.want(t, exclusive.Ran, work, &exclusive.JobOptions{Slot: slot})
				})
			})
		}
	}
}

func TestCallerThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newStore(), 0)
		ctx, cancel := context.WithCancelCause(t.Context())
		shutdown := errors.New("shutting down")
		outcome, err := r.RunExclusive(ctx, "report", func(ctx context.Context, _ *lock.Handle) error {
			cancel(shutdown)
			<-ctx.Done()
			return context.Cause(ctx)
		}, &exclusive.JobOptions{Slot: r.now(), MinHold: time.Minute})
		if outcome != exclusive.Failed || !errors.Is(err, shutdown) {
			t.Errorf("outcome %q, error %v; want the job to fail with the cause of its context", outcome, err)
		}
		r.free(t, "job:report")
		if outcome, err = r.RunExclusive(ctx, "report", work, nil); outcome != exclusive.NotRun || !errors.Is(err, context.Canceled) {
			t.Errorf("outcome %q, error %v after the context has ended", outcome, err)
		}
	})
}

func TestLockThatIsLostInTheRun(t *testing.T) {
	for name, lose := range map[string]func(s *store, slot time.Time) error{
		"job's record removed":  func(s *store, _ time.Time) error { return s.remove("job:report") },
		"slot's record removed": func(s *store, slot time.Time) error { return s.remove(slotKey(slot)) },
		"store gone":            func(s *store, _ time.Time) error { s.failRenewals(); return nil },
		"maximum hold":          func(*store, time.Time) error { return nil },
	} {
		for _, hold := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", hold after failure ", hold), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStore()
					r := newReplica(t, s, 0)
					slot, started := r.now(), time.Now()
					o := &exclusive.JobOptions{Slot: slot, Tolerance: 10 * time.Minute, MaxHold: 5 * time.Minute, HoldAfterFailure: hold}
					err := r.wantError(t, exclusive.Lost, func(ctx context.Context, _ *lock.Handle) error {
						if err := lose(s, slot); err != nil {
							t.Error(err)
						}
						<-ctx.Done()
						if !errors.Is(context.Cause(ctx), lock.ErrLost) {
							t.Errorf("the job's context ended with %v, want a loss", context.Cause(ctx))
						}
						return nil
					}, o)
					var lost *lock.LostError
					if !errors.As(err, &lost) {
						t.Fatalf("error is %v, want a *lock.LostError", err)
					}
					if took := time.Since(started); (name == "maximum hold") != (lost.Reason == lock.LossMaxHold) || took > 5*time.Minute {
						t.Errorf("lost for %q after %s", lost.Reason, took)
					}
					r.free(t, "job:report")
					if !hold {
						r.want(t, exclusive.Ran, work, o)
					}
				})
			})
		}
	}
}

// The job is held elsewhere, and meanwhile the slot is lost: whether somebody runs it is not known, so it is no skip.
func TestSlotThatIsLostBeforeTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, b := newReplica(t, s, 0), newReplica(t, s, 0)
		slot := a.now()
		a.want(t, exclusive.Ran, func(context.Context, *lock.Handle) error {
			s.beforeAcquire = func(req driver.AcquireRequest) error {
				if req.Key.Name != "job:report" {
					return nil
				}
				return s.remove(slotKey(slot))
			}
			if err := b.wantError(t, exclusive.NotRun, work, &exclusive.JobOptions{Slot: slot}); !errors.Is(err, lock.ErrLost) {
				t.Errorf("error is %v, want a loss", err)
			}
			return nil
		}, nil)
	})
}

func TestObserverThatMisbehaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		other := newReplica(t, s, 0)
		client, err := lock.New(s, testPrefix, &lock.Options{Clock: clock.Monotonic()})
		if err != nil {
			t.Fatal(err)
		}
		blocked, release := make(chan struct{}), make(chan struct{})
		runner, err := exclusive.New(client, &exclusive.Options{OnOutcome: func(context.Context, exclusive.Event) {
			close(blocked)
			<-release
			panic("observer")
		}})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan exclusive.Outcome)
		go func() {
			outcome, err := runner.RunExclusive(t.Context(), "report", work, nil)
			if err != nil {
				t.Error(err)
			}
			done <- outcome
		}()
		<-blocked
		other.want(t, exclusive.Ran, work, nil)
		close(release)
		if outcome := <-done; outcome != exclusive.Ran {
			t.Errorf("outcome %q after the observer panicked", outcome)
		}
	})
}

func TestArgumentsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := newReplica(t, s, 0)
		var asked []string
		s.beforeAcquire = recordKeys(&asked)
		slot := r.now()
		for argument, o := range map[string]exclusive.JobOptions{
			"MinHold":           {MinHold: -1},
			"MinHold too long":  {MinHold: r.client.MaxTTL() + 1},
			"MaxHold":           {MaxHold: -1},
			"TTL":               {TTL: -1},
			"TTL too short":     {TTL: 1},
			"TTL too long":      {TTL: r.client.MaxTTL() + 1},
			"Tolerance":         {Slot: slot, Tolerance: -1},
			"Tolerance too big": {Slot: slot, Tolerance: r.client.MaxTTL() - 20*time.Second + 1},
			"Tolerance huge":    {Slot: slot, Tolerance: 1<<63 - 1},
			"MaxSkew":           {Slot: slot, MaxSkew: -1},
			"Slot tolerance":    {Tolerance: time.Second},
			"Slot skew":         {MaxSkew: time.Second},
		} {
			err := r.wantError(t, exclusive.Refused, work, &o)
			var invalid *lock.InvalidError
			if !errors.As(err, &invalid) || !strings.HasPrefix(argument, invalid.Argument) {
				t.Errorf("%s: error is %v, want a *lock.InvalidError for it", argument, err)
			}
			if early := r.Validate(&o); early == nil || early.Error() != err.Error() {
				t.Errorf("%s: Validate says %v, RunExclusive %v", argument, early, err)
			}
		}
		for _, o := range []*exclusive.JobOptions{nil, {MinHold: time.Second}, {Slot: slot.Add(-time.Hour)}, {Slot: slot.Add(time.Hour), Tolerance: time.Minute}} {
			if err := r.Validate(o); err != nil {
				t.Errorf("Validate(%+v): %v", o, err)
			}
		}
		for name, job := range map[string]string{"empty": "", "too long": strings.Repeat("x", lock.MaxKeyBytes), "not UTF-8": "\xff"} {
			if outcome, err := r.RunExclusive(t.Context(), job, work, nil); outcome != exclusive.Refused || !errors.Is(err, lock.ErrInvalid) {
				t.Errorf("a name that is %s: outcome %q, error %v", name, outcome, err)
			}
		}
		if outcome, err := r.RunExclusive(t.Context(), "report", nil, nil); outcome != exclusive.Refused || !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("a nil function: outcome %q, error %v", outcome, err)
		}
		if len(asked) > 0 {
			t.Errorf("the store was asked for %q", asked)
		}
		if _, err := exclusive.New(nil, nil); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("a nil client: %v", err)
		}
	})
}
