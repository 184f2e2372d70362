// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leasereaper

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/controllers/controllertest"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

var environment *controllertest.Environment

func TestMain(m *testing.M) { os.Exit(controllertest.Run(m, &environment)) }

const ttl = 30 * time.Second

// handClock is moved by the test; the reaper starts no timers.
type handClock struct {
	clock.Clock
	now clock.Instant
}

func (c *handClock) Now() clock.Instant { return c.now }

// bench is a reaper, its clock, and a Lease that it has not seen.
type bench struct {
	t      *testing.T
	clock  *handClock
	reaper *Controller
	lease  *coordinationv1.Lease
	writes *controllertest.Writes
}

func newBench(t *testing.T, change ...func(*coordinationv1.Lease)) *bench {
	t.Helper()
	namespace := environment.Namespace(t, nil)
	lease, err := leaseformat.Create(namespace, leaseformat.Acquisition{
		Prefix: "lk:{" + namespace + "/app}:", Key: "order:17", ID: strings.Repeat("0a", 16), Duration: ttl, Owner: "pod-1", Epoch: 1, Now: time.Unix(1, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(lease)
	}
	environment.Create(t, lease)
	b := &bench{t: t, clock: &handClock{}, lease: lease}
	b.become(environment.Manager)
	return b
}

// become starts a reaper that knows nothing, as a process that becomes the leader does.
func (b *bench) become(c client.WithWatch) {
	counted, writes := controllertest.CountWrites(c)
	b.reaper, b.writes = New(counted, b.clock), writes
}

func (b *bench) reconcile() time.Duration {
	b.t.Helper()
	result, err := b.reaper.Reconcile(b.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.lease)})
	if err != nil {
		b.t.Fatal(err)
	}
	return result.RequeueAfter
}

func (b *bench) wantWait(want time.Duration) {
	b.t.Helper()
	if got := b.reconcile(); got != want {
		b.t.Fatalf("looks again after %s, want %s", got, want)
	}
	if !b.exists() {
		b.t.Fatalf("the Lease was deleted %s too early", want)
	}
}

func (b *bench) wait(d time.Duration) { b.clock.now = b.clock.now.Add(d) }

func (b *bench) exists() bool {
	b.t.Helper()
	err := environment.Admin.Get(b.t.Context(), client.ObjectKeyFromObject(b.lease), &coordinationv1.Lease{})
	if err != nil && !apierrors.IsNotFound(err) {
		b.t.Fatal(err)
	}
	return err == nil
}

// renew is what a living holder does.
func (b *bench) renew(ctx context.Context) error {
	renewed, err := leaseformat.Renew(b.lease, ttl, 1, b.lease.Spec.RenewTime.Add(time.Second))
	if err != nil {
		return err
	}
	if err := environment.Admin.Update(ctx, renewed); err != nil {
		return err
	}
	b.lease = renewed
	return nil
}

func TestALeaseGoesAfterItsFullDurationWithoutAChange(t *testing.T) {
	b := newBench(t)
	b.wait(time.Hour) // The time before the first look does not count, however old the Lease is.
	b.wantWait(ttl)
	b.wait(ttl - 1)
	b.wantWait(1)
	b.wait(1)
	if wait := b.reconcile(); wait != 0 || b.exists() {
		t.Fatalf("after the full duration the Lease exists: %t, and is looked at again after %s", b.exists(), wait)
	}
	if sent := strings.Join(b.writes.Sent(), ", "); sent != "delete *v1.Lease" {
		t.Errorf("writes are %q", sent)
	}
	if n := b.reaper.observations.Len() + len(b.reaper.uids); n != 0 {
		t.Errorf("%d observations are kept of a Lease that is gone", n)
	}
}

func TestEveryRenewalStartsTheCountAgain(t *testing.T) {
	b := newBench(t)
	for range 3 {
		b.wantWait(ttl)
		b.wait(ttl - 1)
		if err := b.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.wait(1)
	b.wantWait(ttl)
}

func TestSeeingTheSameVersionAgainChangesNothing(t *testing.T) {
	b := newBench(t)
	b.wantWait(ttl)
	for left := ttl; left > 0; left -= ttl / 10 {
		b.wantWait(left)
		b.wait(ttl / 10)
	}
	if b.reconcile(); b.exists() {
		t.Error("looks in between made the Lease live longer")
	}
}

func TestANewLeaderCountsFromItsOwnFirstLook(t *testing.T) {
	b := newBench(t)
	b.wantWait(ttl)
	b.wait(ttl)
	b.become(environment.Manager)
	b.wantWait(ttl)
}

// A holder that renews between the reaper's look and its delete keeps its lock.
func TestARenewalInTheSameMomentWins(t *testing.T) {
	b := newBench(t)
	armed := false
	b.become(interceptor.NewClient(environment.Manager, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := c.Get(ctx, key, object, options...); err != nil || !armed {
				return err
			}
			armed = false
			return b.renew(ctx)
		},
	}))
	b.wantWait(ttl)
	b.wait(ttl)
	armed = true
	b.reconcile()
	if armed || !b.exists() {
		t.Fatal("the Lease of a living holder was deleted")
	}
	b.wantWait(ttl)
}

// The lock may be free, and taken by somebody else, between look and delete.
func TestALeaseMadeAnewInTheSameMomentStays(t *testing.T) {
	b := newBench(t)
	armed := false
	b.become(interceptor.NewClient(environment.Manager, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := c.Get(ctx, key, object, options...); err != nil || !armed {
				return err
			}
			armed = false
			next := b.lease.DeepCopy()
			next.ObjectMeta = metav1.ObjectMeta{Namespace: next.Namespace, Name: next.Name, Labels: next.Labels, Annotations: next.Annotations}
			if err := environment.Admin.Delete(ctx, b.lease); err != nil {
				return err
			}
			return environment.Admin.Create(ctx, next)
		},
	}))
	b.wantWait(ttl)
	b.wait(ttl)
	armed = true
	b.reconcile()
	if armed || !b.exists() {
		t.Fatal("the Lease of the next holder was deleted")
	}
	b.wantWait(ttl)
}

func TestOtherPeoplesLeasesAreLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*coordinationv1.Lease){
		"no label":                   func(l *coordinationv1.Lease) { delete(l.Labels, leaseformat.LabelLock) },
		"another value of the label": func(l *coordinationv1.Lease) { l.Labels[leaseformat.LabelLock] = "false" },
		"no duration":                func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = nil },
		"annotations of another key": func(l *coordinationv1.Lease) { l.Annotations[leaseformat.AnnotationKey] = "another" },
		"no acquisition":             func(l *coordinationv1.Lease) { delete(l.Annotations, leaseformat.AnnotationAcquisition) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, change)
			b.wantWait(0)
			b.wait(1000 * time.Hour)
			b.wantWait(0)
			if sent := b.writes.Sent(); len(sent) != 0 {
				t.Errorf("writes are %q", sent)
			}
		})
	}
}

// People may edit a Lease into something that is no lock any more, and back.
func TestALeaseThatStopsBeingALockIsForgotten(t *testing.T) {
	b := newBench(t)
	b.wantWait(ttl)
	id := b.lease.Annotations[leaseformat.AnnotationAcquisition]
	delete(b.lease.Annotations, leaseformat.AnnotationAcquisition)
	if err := environment.Admin.Update(t.Context(), b.lease); err != nil {
		t.Fatal(err)
	}
	b.wait(ttl)
	b.wantWait(0)
	b.lease.Annotations[leaseformat.AnnotationAcquisition] = id
	if err := environment.Admin.Update(t.Context(), b.lease); err != nil {
		t.Fatal(err)
	}
	b.wantWait(ttl)
}

func TestARefusedDeleteIsAnErrorAndTriedAgain(t *testing.T) {
	b := newBench(t)
	b.wantWait(ttl)
	b.wait(ttl)
	b.writes.Fail(func(string) error { return apierrors.NewInternalError(context.DeadlineExceeded) })
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.lease)}
	if _, err := b.reaper.Reconcile(t.Context(), request); err == nil {
		t.Fatal("a failed delete was no error")
	}
	b.writes.Fail(nil)
	if b.reconcile(); b.exists() {
		t.Error("the Lease was not deleted at the second attempt")
	}
}
