// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/internal/apiservertest"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// patience is far longer than any healthy step takes.
const patience = 30 * time.Second

// bench is what most tests need: a namespace, a consumer with the rights of the Role, and the administrator's view.
type bench struct {
	t         *testing.T
	ctx       context.Context
	namespace string
	config    *rest.Config
	admin     coordinationv1client.LeaseInterface
	key       driver.Key
	name      string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	namespace := server.Namespace(t)
	key := driver.Key{Prefix: newPrefix(), Name: "order:17"}
	return &bench{
		t: t, ctx: ctx, namespace: namespace, key: key, name: leaseformat.Name(key.Prefix, key.Name),
		config: server.ServiceAccount(t, namespace, "consumer", apiservertest.LeaseVerbs),
		admin:  server.Leases(t, namespace),
	}
}

func (b *bench) driver(options *leaselock.Options) *leaselock.Driver {
	b.t.Helper()
	return newDriver(b.t, b.config, b.namespace, options)
}

// over is a driver whose connections pass through path.
func (b *bench) over(path *fault) *leaselock.Driver {
	b.t.Helper()
	config := rest.CopyConfig(b.config)
	config.Dial = path.dial
	return newDriver(b.t, config, b.namespace, nil)
}

type interceptor func(request *http.Request, next http.RoundTripper) (*http.Response, error)

// intercepted is a driver whose requests pass through f.
func (b *bench) intercepted(options *leaselock.Options, f interceptor) *leaselock.Driver {
	b.t.Helper()
	config := rest.CopyConfig(b.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) { return f(request, next) })
	})
	return newDriver(b.t, config, b.namespace, options)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// holder is an acquisition by a driver.
type holder struct {
	driver *leaselock.Driver
	id     string
	token  driver.Token
	lost   chan error
}

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

func (b *bench) try(d *leaselock.Driver, ttl time.Duration) (*holder, error) {
	h := &holder{driver: d, id: newID(), lost: make(chan error, 1)}
	grant, err := d.Acquire(b.ctx, driver.AcquireRequest{
		Key: b.key, ID: h.id, TTL: ttl, Owner: "test/owner", OnLost: func(cause error) { h.lost <- cause },
	})
	h.token = grant.Token
	return h, err
}

func (b *bench) acquire(d *leaselock.Driver, ttl time.Duration) *holder {
	b.t.Helper()
	h, err := b.try(d, ttl)
	if err != nil {
		b.t.Fatalf("acquire: %v", err)
	}
	return h
}

func (b *bench) release(h *holder) error {
	return h.driver.Release(b.ctx, driver.ReleaseRequest{Key: b.key, ID: h.id})
}

func (b *bench) renew(h *holder, ttl time.Duration) error {
	_, err := h.driver.Renew(b.ctx, driver.RenewRequest{Key: b.key, ID: h.id, TTL: ttl})
	return err
}

// watching waits until the driver's watch runs, so that what happens from now on is told.
func (b *bench) watching(d *leaselock.Driver) driver.Subscription {
	b.t.Helper()
	s, err := d.Subscribe(b.ctx, b.key)
	if err != nil {
		b.t.Fatalf("subscribe: %v", err)
	}
	b.t.Cleanup(s.Close)
	return s
}

func (b *bench) get() *coordinationv1.Lease {
	b.t.Helper()
	lease, err := b.admin.Get(b.ctx, b.name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return lease
}

// edit changes the Lease by hand.
func (b *bench) edit(change func(*coordinationv1.Lease)) *coordinationv1.Lease {
	b.t.Helper()
	lease := b.get()
	change(lease)
	edited, err := b.admin.Update(b.ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return edited
}

func (b *bench) wantLost(h *holder) {
	b.t.Helper()
	select {
	case cause := <-h.lost:
		if !errors.Is(cause, driver.ErrNotHolder) {
			b.t.Fatalf("lost with %v, want ErrNotHolder", cause)
		}
	case <-b.ctx.Done():
		b.t.Fatal("the holder was not told")
	}
}

// wantHeld returns the time that the holder has left.
func (b *bench) wantHeld(err error) time.Duration {
	b.t.Helper()
	held, ok := errors.AsType[*driver.HeldError](err)
	if !ok {
		b.t.Fatalf("error is %v, want held", err)
	}
	return held.Remaining
}

// wantStore returns the remedy.
func (b *bench) wantStore(err, outcome error, reason string) string {
	b.t.Helper()
	store, ok := errors.AsType[*driver.StoreError](err)
	if !ok || !errors.Is(err, outcome) || store.Reason != reason {
		b.t.Fatalf("error is %v, want %q for reason %q", err, outcome, reason)
	}
	return store.Remedy
}
