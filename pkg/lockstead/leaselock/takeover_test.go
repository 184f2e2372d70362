// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/pkg/lock/clock/clocktest"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

func TestContenderCountsOnItsOwnClockFromWhatItReceived(t *testing.T) {
	b := newBench(t)
	h := b.acquire(b.driver(nil), 10*time.Second)
	own := &clocktest.Hand{}
	own.Advance(77)
	// Without the right to watch, the contender receives a version when it asks, and at no other time.
	blind := server.ServiceAccount(t, b.namespace, "blind", []string{"get", "create", "update"})
	contender := newDriver(t, blind, b.namespace, &leaselock.Options{Clock: own})

	wantLeft := func(want time.Duration) {
		t.Helper()
		_, err := b.try(contender, time.Second)
		if left := b.wantHeld(err); left != want {
			t.Errorf("%s remain, want %s", left, want)
		}
	}
	wantLeft(10 * time.Second)
	own.Advance(10*time.Second - 1)
	wantLeft(1)
	if err := b.renew(h, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	own.Advance(1)
	wantLeft(10 * time.Second)
	b.edit(func(l *coordinationv1.Lease) {
		l.Annotations["example.com/note"] = "a stranger's change restarts the count too"
	})
	own.Advance(4 * time.Second)
	wantLeft(10 * time.Second)
	own.Advance(10 * time.Second)
	next := b.acquire(contender, time.Second)
	if !h.token.Less(next.token) {
		t.Errorf("token %s is not greater than %s", next.token, h.token)
	}
	b.wantLost(h)
}

func TestFreshProcessWaitsAWholeDurationHoweverOldTheLeaseLooks(t *testing.T) {
	b := newBench(t)
	b.acquire(b.driver(nil), 10*time.Second)
	b.edit(func(l *coordinationv1.Lease) {
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(0, 0)}
		l.Spec.AcquireTime = l.Spec.RenewTime
	})
	_, err := b.try(b.driver(&leaselock.Options{Clock: &clocktest.Hand{}}), time.Second)
	if left := b.wantHeld(err); left != 10*time.Second {
		t.Errorf("%s remain at first sight, want the whole duration", left)
	}
}

func TestOneOfManyContendersTakesAnAbandonedLease(t *testing.T) {
	b := newBench(t)
	dead := b.acquire(b.driver(nil), time.Second)
	const contenders = 5
	own := &clocktest.Hand{}
	drivers := make([]*leaselock.Driver, contenders)
	for i := range drivers {
		drivers[i] = b.driver(&leaselock.Options{Clock: own})
		_, err := b.try(drivers[i], time.Second)
		b.wantHeld(err)
	}
	own.Advance(time.Second)
	var (
		work    sync.WaitGroup
		mu      sync.Mutex
		granted []*holder
	)
	for _, d := range drivers {
		work.Go(func() {
			h, err := b.try(d, time.Minute)
			if err != nil {
				if !errors.Is(err, driver.ErrHeld) {
					t.Errorf("a contender that lost the race got %v, want held", err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			granted = append(granted, h)
		})
	}
	work.Wait()
	if len(granted) != 1 {
		t.Fatalf("%d contenders took the Lease over, want 1", len(granted))
	}
	lease := b.get()
	if lease.Annotations[leaseformat.AnnotationAcquisition] != granted[0].id || *lease.Spec.LeaseTransitions != 1 {
		t.Errorf("the Lease shows %v and %d transitions", lease.Annotations, *lease.Spec.LeaseTransitions)
	}
	if err := b.release(dead); !errors.Is(err, driver.ErrNotHolder) {
		t.Errorf("release by the dead holder: %v", err)
	}
	if b.get().UID != lease.UID {
		t.Error("the dead holder's release deleted the next holder's Lease")
	}
}

// A plain update that is sent after a delete makes the object anew; with a UID it does not.
func TestTakeOverThatRacesADeleteTakesNothingByAccident(t *testing.T) {
	b := newBench(t)
	dead := b.acquire(b.driver(nil), time.Second)
	old := b.get()
	own := &clocktest.Hand{}
	puts := 0
	contender := b.intercepted(&leaselock.Options{Clock: own}, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if request.Method == http.MethodPut {
			puts++
			if err := b.admin.Delete(b.ctx, b.name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
		return next.RoundTrip(request)
	})
	_, err := b.try(contender, time.Second)
	b.wantHeld(err)
	own.Advance(time.Second)
	next := b.acquire(contender, time.Second)
	if puts != 1 {
		t.Errorf("%d take-overs were sent, want 1", puts)
	}
	now := b.get()
	if now.UID == old.UID || *now.Spec.LeaseTransitions != 0 {
		t.Errorf("the Lease was updated after its deletion instead of created: %+v", now)
	}
	if !dead.token.Less(next.token) {
		t.Errorf("token %s is not greater than %s", next.token, dead.token)
	}
}

func TestTokenIsEpochAndVersionOfTheAcquiringWrite(t *testing.T) {
	b := newBench(t)
	d := b.driver(&leaselock.Options{Epoch: 4})
	h := b.acquire(d, time.Minute)
	if want := b.get().ResourceVersion; h.token.Epoch != 4 || strconv.FormatUint(h.token.Sequence, 10) != want {
		t.Errorf("token %v, want epoch 4 and sequence %s", h.token, want)
	}
	last := h.token
	for range 3 {
		if err := b.renew(h, time.Minute); err != nil {
			t.Fatal(err)
		}
		holding, err := d.Inspect(b.ctx, b.key)
		if err != nil || holding.Token != last {
			t.Errorf("inspect after a renewal: %+v, %v; want token %v", holding, err, last)
		}
		if err := b.release(h); err != nil {
			t.Fatal(err)
		}
		h = b.acquire(d, time.Minute)
		if !last.Less(h.token) {
			t.Errorf("token %v after delete and re-create is not greater than %v", h.token, last)
		}
		last = h.token
	}
	d.RaiseEpoch(9)
	d.RaiseEpoch(7)
	if err := b.release(h); err != nil {
		t.Fatal(err)
	}
	if h = b.acquire(d, time.Minute); h.token.Epoch != 9 {
		t.Errorf("epoch %d after it was raised to 9 and then to 7", h.token.Epoch)
	}
}

// V13: another program panicked on a Lease without leaseTransitions, and let everybody in when the duration was 0.
func TestV13LeaseWithoutOptionalFieldsIsHeldAndThenTakenOver(t *testing.T) {
	b := newBench(t)
	b.acquire(b.driver(nil), 2*time.Second)
	b.edit(func(l *coordinationv1.Lease) {
		l.Spec = coordinationv1.LeaseSpec{LeaseDurationSeconds: l.Spec.LeaseDurationSeconds}
		delete(l.Annotations, leaseformat.AnnotationOwner)
		l.Annotations[leaseformat.AnnotationEpoch] = "many"
	})
	own := &clocktest.Hand{}
	contender := b.driver(&leaselock.Options{Clock: own})
	_, err := b.try(contender, time.Second)
	b.wantHeld(err)
	own.Advance(2 * time.Second)
	b.acquire(contender, time.Second)
}

// V12: fractions of a second are refused by the driver, since the client has rounded them up.
func TestV12DriverRefusesWhatALeaseCannotCarry(t *testing.T) {
	b := newBench(t)
	d := b.driver(nil)
	h := b.acquire(d, time.Minute)
	for _, ttl := range []time.Duration{0, -time.Second, 900 * time.Millisecond, 1900 * time.Millisecond, leaseformat.MaxDuration + time.Second} {
		_, err := b.try(d, ttl)
		b.wantStore(err, driver.ErrUnavailable, "refused")
		b.wantStore(b.renew(h, ttl), driver.ErrUnavailable, "refused")
	}
	if seconds := *b.get().Spec.LeaseDurationSeconds; seconds != 60 {
		t.Errorf("the Lease carries %d s after refused renewals, want 60", seconds)
	}
	if err := b.renew(h, leaseformat.MaxDuration); err != nil {
		t.Errorf("the longest duration is refused: %v", err)
	}
}
