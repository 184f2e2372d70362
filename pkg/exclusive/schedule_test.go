// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package exclusive_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
)

// tick lets replicas call a job that takes 10 ms once a minute, each when its own wall clock says so and its lateness is over, and returns how often each
// minute's job ran.
func tick(t *testing.T, minutes int, lateness []time.Duration, replicas []*replica, options func(slot time.Time) *exclusive.JobOptions) map[string]int {
	t.Helper()
	var mu sync.Mutex
	runs := map[string]int{}
	first := time.Now().Truncate(time.Minute).Add(time.Hour)
	var all sync.WaitGroup
	for i, r := range replicas {
		all.Go(func() {
			for minute := range minutes {
				slot := first.Add(time.Duration(minute) * time.Minute)
				<-time.NewTimer(slot.Add(lateness[i]).Sub(r.now())).C
				_, err := r.RunExclusive(t.Context(), "report", func(context.Context, *lock.Handle) error {
					mu.Lock()
					runs[slot.UTC().Format("15:04")]++
					mu.Unlock()
					<-time.NewTimer(10 * time.Millisecond).C
					return nil
				}, options(slot))
				if err != nil {
					t.Errorf("replica %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	return runs
}

func TestShortJobOfSkewedReplicas(t *testing.T) {
	var calls atomic.Int32
	for name, tc := range map[string]struct {
		options func(slot time.Time) *exclusive.JobOptions
		want    int
	}{
		// The fault that the options are for.
		"a lock alone": {func(time.Time) *exclusive.JobOptions { return nil }, 3},
		"minimum hold": {func(time.Time) *exclusive.JobOptions { return &exclusive.JobOptions{MinHold: 45 * time.Second} }, 1},
		"slot":         {func(slot time.Time) *exclusive.JobOptions { return &exclusive.JobOptions{Slot: slot} }, 1},
		"slot in other time zones": {func(slot time.Time) *exclusive.JobOptions {
			return &exclusive.JobOptions{Slot: slot.In(time.FixedZone("there", 3600*int(calls.Add(1)%3)))}
		}, 1},
		"slot and minimum hold": {func(slot time.Time) *exclusive.JobOptions {
			return &exclusive.JobOptions{Slot: slot, MinHold: 45 * time.Second}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				replicas := []*replica{newReplica(t, s, 4*time.Second), newReplica(t, s, 0), newReplica(t, s, -5*time.Second)}
				runs := tick(t, 5, []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond}, replicas, tc.options)
				if len(runs) != 5 || slices.ContainsFunc(slices.Collect(maps.Values(runs)), func(n int) bool { return n != tc.want }) {
					t.Errorf("runs by minute: %v, want %d for each of 5", runs, tc.want)
				}
			})
		})
	}
}

// However late a replica asks, and whatever its clock says within MaxSkew, a slot is never run twice.
func TestSlotIsNeverRunTwice(t *testing.T) {
	const skew, tolerance = 10 * time.Second, time.Minute
	for _, clocks := range [][2]time.Duration{{0, 0}, {skew, 0}, {0, skew}, {-skew, 0}, {0, -skew}} {
		for _, took := range []time.Duration{0, 30 * time.Second, 3 * time.Minute} {
			t.Run(fmt.Sprint(clocks, " job of ", took), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStore()
					a, b := newReplica(t, s, clocks[0]), newReplica(t, s, clocks[1])
					slot := a.now()
					a.want(t, exclusive.Ran, taking(took), &exclusive.JobOptions{Slot: slot})
					seen := map[exclusive.Outcome]int{}
					for range 120 {
						outcome, err := b.RunExclusive(t.Context(), "report", work, &exclusive.JobOptions{Slot: slot})
						seen[outcome]++
						var refused *exclusive.SlotError
						if outcome != exclusive.SkippedSlot && !errors.As(err, &refused) {
							t.Fatalf("outcome %q (error %v) when its clock said %s after the slot", outcome, err, b.now().Sub(slot))
						}
						pause(t, time.Second)
					}
					if took < tolerance && seen[exclusive.SkippedSlot] == 0 {
						t.Error("the slot was never found locked")
					}
				})
			})
		}
	}
}

func TestScheduleThatFiresTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newStore(), 0)
		o := &exclusive.JobOptions{Slot: r.now()}
		outcomes := make(chan exclusive.Outcome, 2)
		for range 2 {
			go func() {
				outcome, err := r.RunExclusive(t.Context(), "report", taking(time.Second), o)
				if err != nil {
					t.Error(err)
				}
				outcomes <- outcome
			}()
		}
		got := []exclusive.Outcome{<-outcomes, <-outcomes}
		slices.Sort(got)
		if !slices.Equal(got, []exclusive.Outcome{exclusive.Ran, exclusive.SkippedSlot}) {
			t.Errorf("outcomes of two calls at once: %q, want one run", got)
		}
		r.want(t, exclusive.SkippedSlot, work, o)
	})
}

// The next slot comes while the job still runs: it is skipped, and not marked as run.
func TestJobThatRunsIntoItsNextSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, b := newReplica(t, s, 0), newReplica(t, s, 0)
		first := a.now()
		next := first.Add(time.Minute)
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.want(t, exclusive.Ran, taking(61*time.Second), &exclusive.JobOptions{Slot: first})
		}()
		pause(t, time.Minute)
		b.want(t, exclusive.SkippedHeld, work, &exclusive.JobOptions{Slot: next})
		<-done
		b.want(t, exclusive.Ran, work, &exclusive.JobOptions{Slot: next})
	})
}

// A replica that is late for a slot must not hold the job's key while the others come for the next one.
func TestLateReplicaDoesNotTakeTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, late := newReplica(t, s, 0), newReplica(t, s, 0)
		slot := a.now()
		a.want(t, exclusive.Ran, work, &exclusive.JobOptions{Slot: slot})
		var asked []string
		s.beforeAcquire = recordKeys(&asked)
		late.want(t, exclusive.SkippedSlot, work, &exclusive.JobOptions{Slot: slot})
		if want := []string{"job:report:" + slot.UTC().Format("20060102T150405Z")}; !slices.Equal(asked, want) {
			t.Errorf("the late replica asked for %q, want %q", asked, want)
		}
	})
}

func TestSlotThatIsNotNow(t *testing.T) {
	for name, tc := range map[string]struct {
		late    time.Duration
		options exclusive.JobOptions
		want    exclusive.Outcome
		limit   time.Duration
	}{
		"within the tolerance":     {late: time.Minute - 1, want: exclusive.Ran},
		"at the tolerance":         {late: time.Minute, want: exclusive.Refused, limit: time.Minute},
		"past a tolerance of mine": {late: 6 * time.Second, options: exclusive.JobOptions{Tolerance: 5 * time.Second}, want: exclusive.Refused, limit: 5 * time.Second},
		"within one of mine":       {late: 6 * time.Minute, options: exclusive.JobOptions{Tolerance: 10 * time.Minute}, want: exclusive.Ran},
		"ahead by the skew":        {late: -10 * time.Second, want: exclusive.Ran},
		"ahead by more":            {late: -10*time.Second - 1, want: exclusive.Refused, limit: 10 * time.Second},
		"long ago":                 {late: 20 * 365 * 24 * time.Hour, want: exclusive.Refused, limit: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReplica(t, newStore(), 0)
				tc.options.Slot = r.now().Add(-tc.late)
				ran := false
				err := r.wantError(t, tc.want, func(context.Context, *lock.Handle) error { ran = true; return nil }, &tc.options)
				var refused *exclusive.SlotError
				switch {
				case ran != (tc.want == exclusive.Ran):
					t.Errorf("the job ran: %t", ran)
				case tc.limit != 0 && (!errors.As(err, &refused) || refused.Late != tc.late || refused.Limit != tc.limit):
					t.Errorf("error is %v, want a *SlotError with %s and limit %s", err, tc.late, tc.limit)
				}
			})
		})
	}
}
