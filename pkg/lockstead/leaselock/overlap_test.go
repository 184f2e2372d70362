// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock/clocktest"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// client is a lock client on a driver of its own, as a replica has it.
func (b *bench) client(d *leaselock.Driver, options *lock.Options) *lock.Client {
	b.t.Helper()
	c, err := lock.New(d, b.key.Prefix, options)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			b.t.Logf("close: %v", err)
		}
	})
	return c
}

// client-go's leader counts from the receipt of a late answer, its followers from the commit: two leaders for 1.4 s.
func TestOverlapOfALateRenewalAnswer(t *testing.T) {
	b := newBench(t)
	path := newFault()
	first := b.client(b.over(path), nil)
	second := b.client(b.driver(nil), nil)

	h, err := first.TryAcquire(b.ctx, b.key.Name, 2*time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	before := b.get().ResourceVersion
	path.HoldResponses()
	renewed := make(chan error, 1)
	go func() { renewed <- h.Renew(b.ctx, 2*time.Second) }()
	// The renewal is committed; its answer arrives only once the second replica has the lock.
	for b.get().ResourceVersion == before {
		if b.ctx.Err() != nil {
			t.Fatal("the renewal was not committed")
		}
	}
	next, err := second.Acquire(b.ctx, b.key.Name, time.Minute, patience)
	if err != nil {
		t.Fatal(err)
	}
	if h.Valid() || h.Context().Err() == nil {
		t.Error("two holders after a renewal whose answer is late")
	}
	path.Heal()
	if err := <-renewed; err == nil {
		t.Error("the late renewal succeeded")
	}
	if h.Valid() {
		t.Error("the late answer made the handle valid again")
	}
	if err := next.Release(b.ctx); err != nil {
		t.Error(err)
	}
}

// client-go ends the work only after its release has waited for the network: the leader went on for up to 5.5 s beside the next one.
func TestOverlapOfAReleaseOverADeadPath(t *testing.T) {
	b := newBench(t)
	path := newFault()
	first := b.client(b.over(path), nil)
	h, err := first.TryAcquire(b.ctx, b.key.Name, 2*time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	path.HoldResponses()
	released := make(chan error, 1)
	go func() { released <- h.Release(b.ctx) }()
	<-h.Context().Done()
	if h.Valid() || !errors.Is(context.Cause(h.Context()), lock.ErrReleased) {
		t.Errorf("the work goes on while the release waits for the network: %v", context.Cause(h.Context()))
	}
	if len(released) > 0 {
		t.Error("the release did not wait for the network: the test proves nothing")
	}
	path.Heal()
	if err := <-released; err != nil && !errors.Is(err, lock.ErrLost) {
		t.Errorf("release: %v", err)
	}
}

// client-go polls until its renewal deadline when the Lease shows another holder: it led for 11 s more.
func TestOverlapOfADefiniteLoss(t *testing.T) {
	b := newBench(t)
	// Without a watch, the renewal is what finds out.
	blind := server.ServiceAccount(t, b.namespace, "blind", []string{"get", "create", "update", "delete"})
	d := newDriver(t, blind, b.namespace, nil)
	h := b.acquire(d, time.Hour)
	b.edit(func(l *coordinationv1.Lease) { l.Annotations[leaseformat.AnnotationAcquisition] = newID() })
	if err := b.renew(h, time.Hour); !errors.Is(err, driver.ErrNotHolder) {
		t.Fatalf("renewal of a Lease that shows another holder: %v, want ErrNotHolder", err)
	}

	c := b.client(newDriver(t, blind, b.namespace, nil), nil)
	handle, err := c.TryAcquire(b.ctx, "another", time.Hour, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.name = leaseformat.Name(b.key.Prefix, "another")
	b.edit(func(l *coordinationv1.Lease) { l.Annotations[leaseformat.AnnotationAcquisition] = newID() })
	if err := handle.Renew(b.ctx, 0); !errors.Is(err, lock.ErrLost) || handle.Valid() {
		t.Errorf("handle after a definite loss: valid %v, error %v", handle.Valid(), err)
	}
}

// client-go's release reads the Lease again, trusts its cached record and wipes the next holder.
func TestOverlapOfALateRelease(t *testing.T) {
	b := newBench(t)
	sent, proceed := make(chan struct{}), make(chan struct{})
	slow := b.intercepted(nil, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if request.Method == http.MethodDelete {
			close(sent)
			<-proceed
		}
		return next.RoundTrip(request)
	})
	h := b.acquire(slow, time.Second)
	own := &clocktest.Hand{}
	contender := b.driver(&leaselock.Options{Clock: own})
	_, err := b.try(contender, time.Minute)
	b.wantHeld(err)

	late := make(chan error, 1)
	go func() { late <- b.release(h) }()
	<-sent
	own.Advance(time.Second)
	next := b.acquire(contender, time.Minute)
	close(proceed)
	if err := <-late; !errors.Is(err, driver.ErrNotHolder) {
		t.Errorf("late release: %v, want ErrNotHolder", err)
	}
	if got := b.get().Annotations[leaseformat.AnnotationAcquisition]; got != next.id {
		t.Errorf("the Lease shows %s after the late release, want the next holder %s", got, next.id)
	}
	if err := b.renew(next, time.Minute); err != nil {
		t.Errorf("renewal by the next holder: %v", err)
	}
}

// V11: client-go accepts intervals with which the holder gives up after its Lease may be taken over. Here the deadline is not put together from
// intervals: whatever the TTL, the handle is over when the key is granted again.
func TestV11HandleIsOverBeforeTheLeaseIsTakenOver(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 1900 * time.Millisecond, 3 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			b := newBench(t)
			first, second := b.client(b.driver(nil), nil), b.client(b.driver(nil), nil)
			h, err := first.TryAcquire(b.ctx, b.key.Name, ttl, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Renew(b.ctx, ttl); err != nil {
				t.Fatal(err)
			}
			next, err := second.Acquire(b.ctx, b.key.Name, time.Minute, patience)
			if err != nil {
				t.Fatal(err)
			}
			if h.Valid() || h.Context().Err() == nil {
				t.Error("the first handle outlived its Lease")
			}
			if !h.Token().Less(next.Token()) {
				t.Errorf("token %v is not greater than %v", next.Token(), h.Token())
			}
			if err := next.Release(b.ctx); err != nil {
				t.Error(err)
			}
		})
	}
}
