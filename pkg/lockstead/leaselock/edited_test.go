// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/pkg/lock/clock/clocktest"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

func TestHolderIsToldAtOnceWhenItsLeaseIsEdited(t *testing.T) {
	less := int32(5)
	for name, edit := range map[string]func(*coordinationv1.Lease){
		"another acquisition": func(l *coordinationv1.Lease) { l.Annotations[leaseformat.AnnotationAcquisition] = newID() },
		"a shorter duration":  func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = &less },
		"no duration":         func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = nil },
		"no label":            func(l *coordinationv1.Lease) { delete(l.Labels, leaseformat.LabelLock) },
		"no prefix label":     func(l *coordinationv1.Lease) { delete(l.Labels, leaseformat.LabelPrefix) },
		"no annotations":      func(l *coordinationv1.Lease) { l.Annotations = nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			d := b.driver(nil)
			b.watching(d)
			h := b.acquire(d, time.Minute)
			edited := b.edit(edit)
			b.wantLost(h)
			if name == "a shorter duration" {
				// Lost, since others may take it over early; but it still is our Lease, so the release frees the key.
				if err := b.release(h); err != nil {
					t.Errorf("release after the loss: %v", err)
				}
				return
			}
			if err := b.renew(h, time.Minute); !errors.Is(err, driver.ErrNotHolder) {
				t.Errorf("renewal after the loss: %v", err)
			}
			if err := b.release(h); !errors.Is(err, driver.ErrNotHolder) {
				t.Errorf("release after the loss: %v", err)
			}
			if diff := cmp.Diff(edited, b.get()); diff != "" {
				t.Errorf("the edited Lease was touched (-edited +now):\n%s", diff)
			}
		})
	}
}

func TestHolderIsToldAtOnceWhenItsLeaseIsDeleted(t *testing.T) {
	b := newBench(t)
	d := b.driver(nil)
	b.watching(d)
	h := b.acquire(d, time.Minute)
	if err := b.admin.Delete(b.ctx, b.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.wantLost(h)
	next := b.acquire(d, time.Minute)
	if !h.token.Less(next.token) {
		t.Errorf("token %v after a deletion by hand is not greater than %v", next.token, h.token)
	}
}

func TestHolderIsToldOfADeletionThatTheWatchMissed(t *testing.T) {
	b := newBench(t)
	path := newFault()
	d := b.over(path)
	wake := b.watching(d)
	h := b.acquire(d, time.Minute)
	path.Refuse()
	if err := b.admin.Delete(b.ctx, b.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	path.Heal()
	b.wantLost(h)
	select {
	case <-wake.Wake():
	case <-b.ctx.Done():
		t.Error("the waiter was not woken after the interruption")
	}
}

func TestStrangersAnnotationIsKeptAndHarmsNothing(t *testing.T) {
	b := newBench(t)
	d := b.driver(nil)
	h := b.acquire(d, time.Minute)
	for _, note := range []string{"first", "second"} {
		b.edit(func(l *coordinationv1.Lease) {
			l.Annotations["example.com/note"] = note
			l.Labels["example.com/team"] = "payments"
		})
		if err := b.renew(h, time.Minute); err != nil {
			t.Fatalf("renewal after a stranger's annotation: %v", err)
		}
		if got := b.get(); got.Annotations["example.com/note"] != note || got.Labels["example.com/team"] != "payments" {
			t.Errorf("the renewal dropped the stranger's part: %v %v", got.Annotations, got.Labels)
		}
	}
	b.edit(func(l *coordinationv1.Lease) { l.Annotations["example.com/note"] = "third" })
	if err := b.release(h); err != nil {
		t.Fatalf("release after a stranger's annotation: %v", err)
	}
	select {
	case cause := <-h.lost:
		t.Errorf("lost for a stranger's annotation: %v", cause)
	default:
	}
}

func TestForeignLeaseOfTheSameNameIsLeftAlone(t *testing.T) {
	somebody, seconds := "somebody", int32(1)
	for name, foreign := range map[string]*coordinationv1.Lease{
		"no labels":    {Spec: coordinationv1.LeaseSpec{HolderIdentity: &somebody, LeaseDurationSeconds: &seconds}},
		"empty":        {},
		"our label":    {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{leaseformat.LabelLock: "true"}}},
		"other's lock": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{leaseformat.LabelLock: "true"}, Annotations: map[string]string{leaseformat.AnnotationKey: "x", leaseformat.AnnotationPrefix: "y"}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			lease := foreign.DeepCopy()
			lease.Name = b.name
			made, err := b.admin.Create(b.ctx, lease, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			own := &clocktest.Hand{}
			d := b.driver(&leaselock.Options{Clock: own})
			for range 2 {
				_, err = b.try(d, time.Second)
				if !errors.Is(err, driver.ErrForeign) || errors.Is(err, driver.ErrHeld) {
					t.Fatalf("acquire: %v, want ErrForeign alone", err)
				}
				if want := b.namespace + "/" + b.name; !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name the object %s", err, want)
				}
				own.Advance(time.Hour)
			}
			if _, err := d.Inspect(b.ctx, b.key); !errors.Is(err, driver.ErrForeign) {
				t.Errorf("inspect: %v", err)
			}
			for op, err := range map[string]error{
				"release": d.Release(b.ctx, driver.ReleaseRequest{Key: b.key, ID: newID()}),
				"renew":   b.renew(&holder{driver: d, id: newID()}, time.Second),
			} {
				if !errors.Is(err, driver.ErrNotHolder) {
					t.Errorf("%s: %v, want ErrNotHolder", op, err)
				}
			}
			if diff := cmp.Diff(made, b.get()); diff != "" {
				t.Errorf("the foreign Lease was touched (-before +after):\n%s", diff)
			}
		})
	}
}

// A list in pages must not make the locks of one page look deleted to the judge of another.
func TestHoldersOfManyLocksSurviveAListInPages(t *testing.T) {
	b := newBench(t)
	path := newFault()
	d := b.over(path)
	wake := b.watching(d)
	const locks = 520 // more than one page
	lost := make(chan string, locks)
	released := map[string]string{}
	for i := range locks {
		key := driver.Key{Prefix: b.key.Prefix, Name: strings.Repeat("k", i+1)}
		id := newID()
		if _, err := d.Acquire(b.ctx, driver.AcquireRequest{Key: key, ID: id, TTL: time.Hour, OnLost: func(error) { lost <- key.Name }}); err != nil {
			t.Fatal(err)
		}
		released[key.Name] = id
	}
	gone := strings.Repeat("k", 400)
	path.Refuse()
	if err := b.admin.Delete(b.ctx, leaseformat.Name(b.key.Prefix, gone), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	path.Heal()
	select {
	case <-wake.Wake():
	case <-b.ctx.Done():
		t.Fatal("no watch after the interruption")
	}
	if name := <-lost; name != gone || len(lost) > 0 {
		t.Errorf("lost the lock of %d characters and %d more, want only that of %d", len(name), len(lost), len(gone))
	}
	for _, name := range slices.Sorted(maps.Keys(released)) {
		if name == gone {
			continue
		}
		if _, err := d.Renew(b.ctx, driver.RenewRequest{Key: driver.Key{Prefix: b.key.Prefix, Name: name}, ID: released[name], TTL: time.Hour}); err != nil {
			t.Fatalf("renewal: %v", err)
		}
		break
	}
}
