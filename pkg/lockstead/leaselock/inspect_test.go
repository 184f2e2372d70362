// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

func TestHolderIsToldAtOnceWhenItsLockIsTakenAway(t *testing.T) {
	b := newBench(t)
	d := b.driver(nil)
	b.watching(d)
	h := b.acquire(d, time.Minute)
	forced, err := b.driver(nil).ForceRelease(b.ctx, driver.ForceReleaseRequest{Key: b.key, ID: h.id})
	if err != nil || forced.Holding.ID != h.id || forced.Holding.Since.IsZero() || !h.token.Less(forced.Fence) {
		t.Errorf("forced release: %+v, %v", forced, err)
	}
	b.wantLost(h)
	if err := b.renew(h, time.Minute); !errors.Is(err, driver.ErrNotHolder) {
		t.Errorf("renewal after the loss: %v", err)
	}
}

// The lock is taken away by the first of two writes. Without the second the key is free after a second, and the error says so.
func TestAForcedReleaseThatCannotDelete(t *testing.T) {
	b := newBench(t)
	h := b.acquire(b.driver(nil), time.Hour)
	forcing := b.intercepted(nil, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if request.Method == http.MethodDelete {
			return nil, errors.New("the connection broke")
		}
		return next.RoundTrip(request)
	})
	forced, err := forcing.ForceRelease(b.ctx, driver.ForceReleaseRequest{Key: b.key})
	b.wantStore(err, driver.ErrUnknown, "not-freed")
	if forced.Holding.ID != h.id {
		t.Errorf("taken away was %+v, want the holder %s", forced.Holding, h.id)
	}
	if err := b.renew(h, time.Hour); !errors.Is(err, driver.ErrNotHolder) {
		t.Errorf("renewal after the loss: %v", err)
	}
	if got := *b.get().Spec.LeaseDurationSeconds; got != 1 {
		t.Errorf("the key stays held for %d s, want 1", got)
	}
}

// A holder that renews at the same time changes the version under the forced release, which then takes the newer one.
func TestAForcedReleaseAgainstARenewal(t *testing.T) {
	b := newBench(t)
	h := b.acquire(b.driver(nil), time.Minute)
	renewed := false
	forcing := b.intercepted(nil, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if request.Method == http.MethodPut && !renewed {
			renewed = true
			if err := b.renew(h, time.Minute); err != nil {
				t.Errorf("renewal: %v", err)
			}
		}
		return next.RoundTrip(request)
	})
	forced, err := forcing.ForceRelease(b.ctx, driver.ForceReleaseRequest{Key: b.key, ID: h.id})
	if err != nil || forced.Holding.ID != h.id || !renewed {
		t.Errorf("forced release: %+v, %v", forced, err)
	}
	if err := b.renew(h, time.Minute); !errors.Is(err, driver.ErrNotHolder) {
		t.Errorf("renewal after the loss: %v", err)
	}
}

// The API server forgets the version that a long list began with, and gives a cursor to go on with.
func TestAListGoesOnWhenItsVersionIsForgotten(t *testing.T) {
	b := newBench(t)
	h := b.acquire(b.driver(nil), time.Minute)
	forgotten := false
	d := b.intercepted(nil, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if request.URL.Query().Get("continue") != "old" {
			return next.RoundTrip(request)
		}
		forgotten = true
		body := `{"kind":"Status","apiVersion":"v1","metadata":{"continue":"` + firstPage(t, b) + `"},"status":"Failure","reason":"Expired","code":410}`
		header := http.Header{"Content-Type": {"application/json"}}
		return &http.Response{StatusCode: http.StatusGone, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: request}, nil
	})
	page, err := d.List(b.ctx, driver.ListRequest{Prefix: b.key.Prefix, Cursor: "old", Limit: 1})
	if err != nil || !forgotten || len(page.Held) != 1 || page.Held[0].Holding.ID == h.id {
		t.Errorf("the page after the forgotten one is %+v, %v, want the other key", page, err)
	}
}

// firstPage takes a second key and returns the cursor behind the first.
func firstPage(t *testing.T, b *bench) string {
	t.Helper()
	first := b.get()
	d := b.driver(nil)
	// A key whose Lease comes behind the first.
	req := driver.AcquireRequest{ID: newID(), TTL: time.Minute, OnLost: func(error) {}}
	for req.Key = b.key; leaseformat.Name(req.Key.Prefix, req.Key.Name) <= first.Name; {
		req.Key.Name += "+"
	}
	if _, err := d.Acquire(b.ctx, req); err != nil {
		t.Error(err)
	}
	page, err := d.List(b.ctx, driver.ListRequest{Prefix: b.key.Prefix, Limit: 1})
	if err != nil || page.Next == "" {
		t.Errorf("the first page is %+v, %v", page, err)
	}
	return page.Next
}

// A Lease with the label that is no lock is not listed, and not taken away.
func TestAForeignLeaseIsNeitherListedNorTakenAway(t *testing.T) {
	b := newBench(t)
	d := b.driver(nil)
	b.acquire(d, time.Minute)
	b.edit(func(l *coordinationv1.Lease) { delete(l.Annotations, leaseformat.AnnotationAcquisition) })
	page, err := d.List(b.ctx, driver.ListRequest{Prefix: b.key.Prefix, Limit: 10})
	if err != nil || len(page.Held) != 0 {
		t.Errorf("the list is %+v, %v", page, err)
	}
	if _, err := d.ForceRelease(b.ctx, driver.ForceReleaseRequest{Key: b.key}); !errors.Is(err, driver.ErrForeign) {
		t.Errorf("forced release: %v", err)
	}
	b.get()
}
