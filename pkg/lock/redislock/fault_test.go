// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
)

// brief is an attempt that is given up soon.
var brief = &redislock.Options{AttemptTimeout: time.Second}

// openFaulty is a driver with an open connection through a proxy, and one beside it.
func openFaulty(t *testing.T, options *redislock.Options) (d, direct *redislock.Driver, proxy *faultproxy.Proxy) {
	t.Helper()
	server := startServer(t, binding.AccessFunctions)
	proxy = faultproxy.New(t, server.Addr())
	d, direct = openTenant(t, proxy.Addr(), binding.AccessFunctions, options), openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	warm := request("warm")
	mustAcquire(t, d, warm)
	return d, direct, proxy
}

func holder(t *testing.T, d *redislock.Driver, name string) string {
	t.Helper()
	holding, err := d.Inspect(t.Context(), lockKey(name))
	if err != nil {
		t.Fatal(err)
	}
	return holding.ID
}

func TestAnswersThatDoNotComeAreUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		disturb     func(*faultproxy.Proxy)
		wantReason  string
		wantApplied bool
	}{
		"held back":  {(*faultproxy.Proxy).HoldResponses, redislock.ReasonTimeout, true},
		"dropped":    {(*faultproxy.Proxy).DropResponses, redislock.ReasonConnection, true},
		"black hole": {(*faultproxy.Proxy).BlackHole, redislock.ReasonTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, direct, proxy := openFaulty(t, brief)
			tc.disturb(proxy)
			req := request("order:1")
			_, err := d.Acquire(t.Context(), req)
			wantFault(t, err, driver.ErrUnknown, tc.wantReason)
			if got := holder(t, direct, "order:1"); (got == req.ID) != tc.wantApplied {
				t.Errorf("holder is %q, want it to be the acquisition: %t", got, tc.wantApplied)
			}
			proxy.Heal()
		})
	}
}

// A cancelled caller returns at once, long before the attempt would be given up, and its release by id finds the lock.
func TestACancelledAcquireReturnsAtOnce(t *testing.T) {
	d, direct, proxy := openFaulty(t, &redislock.Options{AttemptTimeout: 5 * time.Minute})
	proxy.HoldResponses()
	ctx, cancel := context.WithCancel(t.Context())
	req := request("order:1")
	result := make(chan error, 1)
	go func() {
		_, err := d.Acquire(ctx, req)
		result <- err
	}()
	eventually(t, "the acquire", func() bool { return holder(t, direct, "order:1") == req.ID })
	cancel()
	err := <-result
	wantIs(t, err, context.Canceled)
	wantIs(t, err, driver.ErrUnknown)
	if err := direct.Release(t.Context(), release(req)); err != nil {
		t.Error(err)
	}
	proxy.Heal()
}

func TestAServerThatIsDownIsUnavailable(t *testing.T) {
	d, _, proxy := openFaulty(t, nil)
	proxy.Refuse()
	// The connection that was open breaks first; a client that has noticed says that nothing was sent, one that has not, that it does not know.
	_, err := d.Acquire(t.Context(), request("order:1"))
	wantStoreFault(t, err)
	_, err = d.Acquire(t.Context(), request("order:1"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonConnect)
	wantFault(t, d.Release(t.Context(), driver.ReleaseRequest{Key: lockKey("warm"), ID: newID()}), driver.ErrUnavailable, redislock.ReasonConnect)
	proxy.Heal()
	mustAcquire(t, d, request("order:1"))
}

func wantStoreFault(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) {
		t.Fatalf("error is %v, want a fault of the store", err)
	}
}

// A request that waits for a connection when its caller goes is never sent: otherwise it would take the lock for nobody after
// the caller's release.
func TestAGivenUpRequestIsNotSentLater(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	proxy := faultproxy.New(t, server.Addr())
	options := server.ClientOptions(tenantName, tenantPassword)
	options.Addr, options.PoolSize, options.MaxActiveConns = proxy.Addr(), 1, 1
	options.PoolTimeout, options.ContextTimeoutEnabled = patience, true
	d := openClient(t, options, nil)
	direct := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	mustAcquire(t, d, request("warm"))
	proxy.HoldResponses()
	first := request("order:1")
	result := make(chan error, 1)
	go func() {
		_, err := d.Acquire(t.Context(), first)
		result <- err
	}()
	eventually(t, "the first acquire", func() bool { return holder(t, direct, "order:1") == first.ID })
	// The only connection is taken, so the second waits for one.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	second := request("order:2")
	_, err := d.Acquire(ctx, second)
	wantIs(t, err, driver.ErrUnavailable)
	wantIs(t, err, context.DeadlineExceeded)
	proxy.Heal()
	if err := <-result; err != nil {
		t.Errorf("the first acquire: %v", err)
	}
	// The connection serves again, and the second acquire does not come after all.
	if err := d.Release(t.Context(), release(first)); err != nil {
		t.Error(err)
	}
	if got := holder(t, direct, "order:2"); got != "" {
		t.Errorf("a request that was given up took the lock as %s", got)
	}
}

// The time of an attempt is not the caller's, and the TTL bounds it as well.
func TestAttemptsAreBoundedByTheTTL(t *testing.T) {
	d, _, proxy := openFaulty(t, &redislock.Options{AttemptTimeout: time.Hour})
	proxy.HoldResponses()
	req := request("order:1")
	req.TTL = 200 * time.Millisecond
	_, err := d.Acquire(t.Context(), req)
	wantFault(t, err, driver.ErrUnknown, redislock.ReasonTimeout)
	// The connection went with the first answer, so it is the handshake of the next one that gets none.
	_, err = d.Renew(t.Context(), renew(req))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonTimeout)
	proxy.Heal()
}

// A request that only reads leaves nothing behind to be unsure of.
func TestAnInspectIsNeverApplied(t *testing.T) {
	d, _, proxy := openFaulty(t, brief)
	proxy.HoldResponses()
	_, err := d.Inspect(t.Context(), lockKey("order:1"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonTimeout)
	proxy.Heal()
}
