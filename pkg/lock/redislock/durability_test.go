// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// afterRestart repeats a request until the driver has connections to the server that was started again.
func afterRestart(t *testing.T, what string, request func() error) error {
	t.Helper()
	var err error
	eventually(t, what, func() bool {
		err = request()
		var fault *driver.StoreError
		return !errors.As(err, &fault) ||
			(fault.Reason != redislock.ReasonConnect && fault.Reason != redislock.ReasonConnection && fault.Reason != redislock.ReasonLoading)
	})
	return err
}

// What a function wrote must be there after a power cut. With the default user restricted in the usual way it is not: the server replays its file as that
// user, and drops every function's effects of two writes and more.
func TestKilledServerKeepsLocksAndTokens(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server := startServer(t, access)
		d := openTenant(t, server.Addr(), access, nil)
		held, passing := request("held"), request("passing")
		first := mustAcquire(t, d, held)
		last := mustAcquire(t, d, passing)
		if err := d.Release(t.Context(), release(passing)); err != nil {
			t.Fatal(err)
		}

		server.Kill(t)
		server.Run(t)
		if access == binding.AccessScripts {
			server.PreloadScripts(t)
		}

		contender := request("held")
		err := afterRestart(t, "acquire after the restart", func() error {
			_, err := d.Acquire(t.Context(), contender)
			return err
		})
		wantIs(t, err, driver.ErrHeld)
		if _, err := d.Renew(t.Context(), renew(held)); err != nil {
			t.Errorf("renewal by the holder from before: %v", err)
		}
		holding, err := d.Inspect(t.Context(), held.Key)
		if err != nil || holding.ID != held.ID || holding.Token != first.Token {
			t.Errorf("after the restart the holder is %+v, %v", holding, err)
		}
		// The server armed itself: no operator was there.
		next := request("passing")
		if grant := mustAcquire(t, d, next); !last.Token.Less(grant.Token) {
			t.Errorf("token %s was granted after %s", grant.Token, last.Token)
		}
		if err := d.Release(t.Context(), release(held)); err != nil {
			t.Errorf("release by the holder from before: %v", err)
		}
	})
}

func TestServerThatLostItsDataGrantsNothing(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	d := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	held := request("order:1")
	before := mustAcquire(t, d, held)
	server.Kill(t)
	server.RemoveData(t)
	server.Run(t)

	acquire := func() error {
		_, err := d.Acquire(t.Context(), request("order:1"))
		return err
	}
	wantFault(t, afterRestart(t, "acquire on the empty server", acquire), driver.ErrUnavailable, redislock.ReasonNoFunction)
	admin := server.Admin(t)
	if err := admin.FunctionLoad(t.Context(), redisproto.Library()).Err(); err != nil {
		t.Fatal(err)
	}
	wantFault(t, acquire(), driver.ErrUnavailable, redislock.ReasonNoEpoch)

	// The operator raises the epoch, without the leave to self-arm while the quarantine lasts.
	next := redisproto.Epoch{Number: redisproto.NextEpoch(0, epoch.Number, 0), MaxTTL: epoch.MaxTTL}
	server.Prepare(t, prefix, next)
	wantFault(t, acquire(), driver.ErrUnavailable, redislock.ReasonNotArmed)
	_, err := d.Renew(t.Context(), renew(held))
	wantIs(t, err, driver.ErrNotHolder)
	if err := admin.FCall(t.Context(), redisproto.FunctionArm, []string{redisproto.ArmKey(prefix)}, prefix, fmt.Sprint(next.Number)).Err(); err != nil {
		t.Fatal(err)
	}
	if grant := mustAcquire(t, d, request("order:1")); !before.Token.Less(grant.Token) {
		t.Errorf("token %s was granted after %s, which was before the loss", grant.Token, before.Token)
	}
}

// Without arming a server that lost its data grants at once; at least the tokens go on growing.
func TestScriptTokensGrowOverALossOfData(t *testing.T) {
	server := redistest.Start(t, nil)
	options := server.ClientOptions("admin", server.AdminPassword())
	d := openClient(t, options, &redislock.Options{Access: binding.AccessScripts})
	before := mustAcquire(t, d, request("order:1"))
	server.Kill(t)
	server.RemoveData(t)
	server.Run(t)
	// The epoch is the server's time in seconds, so the loss must not come within the second of the first epoch.
	admin := server.Admin(t)
	eventually(t, "the next second", func() bool {
		now, err := admin.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return uint64(now.Unix()) > before.Token.Epoch
	})
	var after driver.Grant
	err := afterRestart(t, "acquire on the empty server", func() (err error) {
		after, err = d.Acquire(t.Context(), request("order:1"))
		return err
	})
	if err != nil || !before.Token.Less(after.Token) {
		t.Errorf("token %s, %v was granted after %s", after.Token, err, before.Token)
	}
}

// fill writes until the server has no memory left.
func fill(t *testing.T, admin *redis.Client) {
	t.Helper()
	for size := 64 << 10; size >= 16; {
		err := admin.RPush(t.Context(), "ballast", strings.Repeat("x", size)).Err()
		switch {
		case redis.IsOOMError(err):
			size /= 2
		case err != nil:
			t.Fatal(err)
		}
	}
	if err := admin.ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
}

func TestFullServerRenewsAndReleases(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server := startServer(t, access, "maxmemory 6mb")
		d := openTenant(t, server.Addr(), access, nil)
		held := request("held")
		mustAcquire(t, d, held)
		subscription, err := d.Subscribe(t.Context(), held.Key)
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()
		fill(t, server.Admin(t))

		_, err = d.Acquire(t.Context(), request("another"))
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonOOM)
		_, err = d.Pass(t.Context(), passTo(held, request("held")))
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonOOM)
		if _, err := d.Renew(t.Context(), renew(held)); err != nil {
			t.Errorf("renewal on the full server: %v", err)
		}
		if holding, err := d.Inspect(t.Context(), held.Key); err != nil || holding.ID != held.ID {
			t.Errorf("inspect on the full server: %+v, %v", holding, err)
		}
		if err := d.Release(t.Context(), release(held)); err != nil {
			t.Errorf("release on the full server: %v", err)
		}
		awaitWake(t, subscription)
		if holding, err := d.Inspect(t.Context(), held.Key); err != nil || holding.Held {
			t.Errorf("after the release on the full server: %+v, %v", holding, err)
		}
	})
}

func TestWaiterIsWokenAfterARestartOfTheServer(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server := startServer(t, access)
		d := openTenant(t, server.Addr(), access, nil)
		req := request("order:1")
		mustAcquire(t, d, req)
		subscription, err := d.Subscribe(t.Context(), req.Key)
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()

		server.Kill(t)
		server.Run(t)
		if access == binding.AccessScripts {
			server.PreloadScripts(t)
		}
		awaitWake(t, subscription)
		// The new connection carries notifications again.
		err = afterRestart(t, "release after the restart", func() error { return d.Release(t.Context(), release(req)) })
		if err != nil && !errors.Is(err, driver.ErrNotHolder) {
			t.Fatal(err)
		}
		awaitWake(t, subscription)
	})
}

// A server that hangs hangs no caller, and the caller's context is not to blame.
func TestHungServerDoesNotHangTheCaller(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	d := openTenant(t, server.Addr(), binding.AccessFunctions, &redislock.Options{AttemptTimeout: 300 * time.Millisecond})
	req := request("order:1")
	mustAcquire(t, d, req)
	thaw := server.Freeze(t)
	_, err := d.Acquire(t.Context(), request("order:2"))
	wantFault(t, err, driver.ErrUnknown, redislock.ReasonTimeout)
	// The renewal needs a new connection, whose handshake gets no answer: nothing of the request has left.
	_, err = d.Renew(t.Context(), renew(req))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonTimeout)
	_, err = d.Subscribe(t.Context(), lockKey("order:3"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonTimeout)
	thaw()
	err = afterRestart(t, "release after the thaw", func() error { return d.Release(t.Context(), release(req)) })
	if err != nil && !errors.Is(err, driver.ErrNotHolder) {
		t.Errorf("release after the thaw: %v", err)
	}
}
