// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// pass passes the lock of a holder on.
func (b *bench) pass(from *holder) (*holder, error) {
	h := &holder{driver: from.driver, id: newID(), lost: make(chan error, 1)}
	grant, err := h.driver.Pass(b.ctx, driver.PassRequest{From: from.id, To: driver.AcquireRequest{
		Key: b.key, ID: h.id, TTL: time.Minute, Owner: "test/next", OnLost: func(cause error) { h.lost <- cause },
	}})
	h.token = grant.Token
	return h, err
}

func TestPassKeepsTheLease(t *testing.T) {
	b := newBench(t)
	d := b.driver(nil)
	b.watching(d)
	first := b.acquire(d, time.Minute)
	before := b.get()
	// A stranger's annotation makes a version that this process did not write, and is kept.
	b.edit(func(lease *coordinationv1.Lease) { lease.Annotations["example.com/note"] = "kept" })
	next, err := b.pass(first)
	if err != nil {
		t.Fatal(err)
	}
	after := b.get()
	if after.UID != before.UID || after.Annotations["example.com/note"] != "kept" || *after.Spec.HolderIdentity != "test/next" {
		t.Errorf("Lease after the pass: %+v", after)
	}
	if !first.token.Less(next.token) {
		t.Errorf("token %s was passed on as %s", first.token, next.token)
	}
	// The watch looks after the new acquisition.
	b.edit(func(lease *coordinationv1.Lease) { lease.Labels = nil })
	b.wantLost(next)
	if len(first.lost) != 0 {
		t.Errorf("the old acquisition was told of a loss: %v", <-first.lost)
	}
}

func TestPassThatIsSentTwiceIsGranted(t *testing.T) {
	b := newBench(t)
	var twice atomic.Bool
	d := b.intercepted(nil, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if request.Method != http.MethodPut || !twice.CompareAndSwap(true, false) {
			return next.RoundTrip(request)
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		again := request.Clone(request.Context())
		request.Body, again.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
		lost, err := next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		_ = lost.Body.Close()
		return next.RoundTrip(again)
	})
	first := b.acquire(d, time.Minute)
	twice.Store(true)
	next, err := b.pass(first)
	if err != nil {
		t.Fatal(err)
	}
	if twice.Load() {
		t.Error("the update was not sent")
	}
	if !first.token.Less(next.token) {
		t.Errorf("token %s was passed on as %s", first.token, next.token)
	}
	if err := b.release(next); err != nil {
		t.Error(err)
	}
}
