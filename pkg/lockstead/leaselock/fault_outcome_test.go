// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/internal/apiservertest"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
)

func TestMissingRightsNameRoleAndServiceAccount(t *testing.T) {
	b := newBench(t)
	options := &leaselock.Options{LockNamespace: b.namespace + "/billing"}
	for missing, want := range map[string]func(*leaselock.Driver) error{
		"create": func(d *leaselock.Driver) error { _, err := b.try(d, time.Minute); return err },
		"get":    func(d *leaselock.Driver) error { _, err := b.try(d, time.Minute); return err },
		"update": func(d *leaselock.Driver) error { return b.renew(b.acquire(d, time.Minute), time.Minute) },
		"delete": func(d *leaselock.Driver) error { return b.release(b.acquire(d, time.Minute)) },
		"list":   func(d *leaselock.Driver) error { _, err := d.Subscribe(b.ctx, b.key); return err },
		"watch":  func(d *leaselock.Driver) error { _, err := d.Subscribe(b.ctx, b.key); return err },
	} {
		b.key.Name = newID()
		if missing == "get" {
			// The read comes only after a refused create.
			b.acquire(b.driver(nil), time.Minute)
		}
		verbs := slices.DeleteFunc(slices.Clone(apiservertest.LeaseVerbs), func(v string) bool { return v == missing })
		account := "no-" + missing
		d := newDriver(t, server.ServiceAccount(t, b.namespace, account, verbs), b.namespace, options)
		remedy := b.wantStore(want(d), driver.ErrUnavailable, "permission")
		for _, part := range []string{"Role " + b.namespace + "/lockstead-billing", "service account " + b.namespace + "/" + account, "spec.consumers"} {
			if !strings.Contains(remedy, part) {
				t.Errorf("without %s: remedy %q does not say %q", missing, remedy, part)
			}
		}
	}
}

func TestServerThatIsDownIsUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, ctx: t.Context(), key: driver.Key{Prefix: newPrefix(), Name: "order:17"}}
	d := newDriver(t, &rest.Config{Host: "https://" + address}, "default", nil)
	_, err = b.try(d, time.Minute)
	b.wantStore(err, driver.ErrUnavailable, "connection")
	_, err = d.Subscribe(b.ctx, b.key)
	b.wantStore(err, driver.ErrUnavailable, "connection")
}

func TestMissingNamespaceIsNamed(t *testing.T) {
	b := newBench(t)
	d := newDriver(t, server.Config(), "no-such-namespace", nil)
	_, err := b.try(d, time.Minute)
	if remedy := b.wantStore(err, driver.ErrUnavailable, "namespace-missing"); !strings.Contains(remedy, "no-such-namespace") {
		t.Errorf("remedy %q does not name the namespace", remedy)
	}
}

// client-go repeats by itself what is answered with Retry-After: a create that was applied would come back as "already exists".
func TestNoRequestIsRepeatedBehindTheDriver(t *testing.T) {
	type answer struct {
		outcome error
		reason  string
	}
	for code, want := range map[int]answer{
		http.StatusTooManyRequests:     {driver.ErrUnavailable, "throttled"},
		http.StatusServiceUnavailable:  {driver.ErrUnknown, "server"},
		http.StatusInternalServerError: {driver.ErrUnknown, "server"},
		http.StatusGatewayTimeout:      {driver.ErrUnknown, "server"},
	} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			b := newBench(t)
			var creates atomic.Int32
			d := b.intercepted(nil, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
				if request.Method != http.MethodPost {
					return next.RoundTrip(request)
				}
				creates.Add(1)
				return &http.Response{
					StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
					Header: http.Header{"Retry-After": {"1"}}, Body: io.NopCloser(strings.NewReader("busy")),
				}, nil
			})
			_, err := b.try(d, time.Minute)
			b.wantStore(err, want.outcome, want.reason)
			if n := creates.Load(); n != 1 {
				t.Errorf("the create was sent %d times", n)
			}
		})
	}
}

// The limiter of the application's config lets nothing through, as one does that is busy with a thousand other requests. Locks have no part in it.
func TestTheApplicationsRateLimiterDelaysNoLock(t *testing.T) {
	b := newBench(t)
	busy := rest.CopyConfig(b.config)
	busy.QPS, busy.Burst, busy.RateLimiter = 0.001, 1, flowcontrol.NewFakeNeverRateLimiter()
	d := newDriver(t, busy, b.namespace, nil)
	h := b.acquire(d, time.Minute)
	for range 3 {
		if err := b.renew(h, time.Minute); err != nil {
			t.Fatalf("renewal: %v", err)
		}
	}
	if err := b.release(h); err != nil {
		t.Errorf("release: %v", err)
	}
}

func TestRenewalWhoseAnswerWasLostIsAdopted(t *testing.T) {
	b := newBench(t)
	var lose atomic.Bool
	// Without a watch nothing else tells of the version that the lost answer carried.
	b.config = server.ServiceAccount(t, b.namespace, "blind", []string{"get", "create", "update", "delete"})
	d := b.intercepted(nil, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && request.Method == http.MethodPut && lose.CompareAndSwap(true, false) {
			return nil, errors.Join(errors.New("connection reset"), response.Body.Close())
		}
		return response, err
	})
	h := b.acquire(d, time.Minute)
	before := b.get().ResourceVersion
	lose.Store(true)
	b.wantStore(b.renew(h, time.Minute), driver.ErrUnknown, "connection")
	if b.get().ResourceVersion == before {
		t.Fatal("the renewal was not applied: the test proves nothing")
	}
	if err := b.renew(h, time.Minute); err != nil {
		t.Fatalf("renewal after a lost answer: %v", err)
	}
	lose.Store(true)
	b.wantStore(b.renew(h, time.Minute), driver.ErrUnknown, "connection")
	if err := b.release(h); err != nil {
		t.Fatalf("release after a lost answer: %v", err)
	}
}

func TestVersionThatIsNoTokenIsNoGrant(t *testing.T) {
	for _, version := range []string{"99999999999999999999999999", "abc"} {
		t.Run(version, func(t *testing.T) {
			b := newBench(t)
			faulty := b.intercepted(nil, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
				if request.Method == http.MethodPost {
					request.Header.Set("Accept", "application/json")
				}
				response, err := next.RoundTrip(request)
				if err != nil || request.Method != http.MethodPost {
					return response, err
				}
				body, err := io.ReadAll(response.Body)
				if err != nil {
					return nil, err
				}
				actual := b.get().ResourceVersion
				body = bytes.Replace(body, []byte(`"resourceVersion":"`+actual+`"`), []byte(`"resourceVersion":"`+version+`"`), 1)
				response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				response.Header.Del("Content-Length")
				return response, nil
			})
			h, err := b.try(faulty, time.Minute)
			b.wantStore(err, driver.ErrUnknown, "token")
			if err := b.release(h); err != nil {
				t.Errorf("release by id of what gave no token: %v", err)
			}
		})
	}
}

func TestOneWatchServesAllWaitersOfAProcess(t *testing.T) {
	b := newBench(t)
	var watches atomic.Int32
	d := b.intercepted(nil, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if request.URL.Query().Get("watch") != "" {
			watches.Add(1)
		}
		return next.RoundTrip(request)
	})
	const waiters = 20
	holderSide := b.driver(nil)
	var work sync.WaitGroup
	for range waiters {
		key := driver.Key{Prefix: b.key.Prefix, Name: newID()}
		work.Go(func() {
			id := newID()
			if _, err := holderSide.Acquire(b.ctx, driver.AcquireRequest{Key: key, ID: id, TTL: time.Hour, OnLost: func(error) {}}); err != nil {
				t.Error(err)
				return
			}
			s, err := d.Subscribe(b.ctx, key)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			// The start of the watch wakes everybody once.
			select {
			case <-s.Wake():
			default:
			}
			if err := holderSide.Release(b.ctx, driver.ReleaseRequest{Key: key, ID: id}); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-s.Wake():
			case <-b.ctx.Done():
				t.Error("not woken by the release")
			}
		})
	}
	work.Wait()
	if n := watches.Load(); n != 1 {
		t.Errorf("%d watches for %d waiters, want 1", n, waiters)
	}
}

// When the server no longer has the events from the last version on, everything is listed again and everybody is woken.
func TestExpiredWatchListsAgain(t *testing.T) {
	b := newBench(t)
	path := newFault()
	b.config.Dial = path.dial
	var expire atomic.Bool
	d := b.intercepted(nil, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if request.URL.Query().Get("watch") != "" && expire.CompareAndSwap(true, false) {
			return &http.Response{
				StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
				Header: http.Header{"Content-Type": {"application/json"}},
				Body:   io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version"}`)),
			}, nil
		}
		return next.RoundTrip(request)
	})
	wake := b.watching(d)
	<-wake.Wake()
	h := b.acquire(d, time.Hour)
	expire.Store(true)
	path.Refuse()
	if err := b.admin.Delete(b.ctx, b.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	path.Heal()
	b.wantLost(h)
	select {
	case <-wake.Wake():
	case <-b.ctx.Done():
		t.Error("not woken after the list")
	}
	if expire.Load() {
		t.Error("the watch was not expired: the test proves nothing")
	}
}
