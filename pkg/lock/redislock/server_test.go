// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

func TestArming(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	waits := redisproto.Epoch{Number: epoch.Number, MaxTTL: time.Hour}
	server.Prepare(t, prefix, waits)
	d := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	admin := server.Admin(t)
	arm := func(number uint64) error {
		return admin.FCall(t.Context(), redisproto.FunctionArm, []string{redisproto.ArmKey(prefix)}, prefix, strconv.FormatUint(number, 10)).Err()
	}
	refused := func(when string) {
		t.Helper()
		_, err := d.Acquire(t.Context(), request("order:1"))
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNotArmed)
		if t.Failed() {
			t.Fatalf("%s", when)
		}
	}
	refused("before the operator armed the server")
	if err := arm(waits.Number + 1); err == nil {
		t.Fatal("an epoch that is not the record's was armed")
	}
	refused("after an arming that was refused")
	if err := arm(waits.Number); err != nil {
		t.Fatal(err)
	}
	held := request("order:1")
	mustAcquire(t, d, held)
	// Another lock namespace is armed on its own.
	other := newPrefix()
	server.Prepare(t, other, waits)
	elsewhere := request("order:1")
	elsewhere.Key.Prefix = other
	_, err := d.Acquire(t.Context(), elsewhere)
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNotArmed)
	// What may have lost something disarms: a reload of the library, and a restart.
	if err := admin.FunctionLoadReplace(t.Context(), redisproto.Library()).Err(); err != nil {
		t.Fatal(err)
	}
	fresh := request("order:2")
	_, err = d.Acquire(t.Context(), fresh)
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNotArmed)
	if err := arm(waits.Number); err != nil {
		t.Fatal(err)
	}
	mustAcquire(t, d, fresh)
	server.Kill(t)
	server.Run(t)
	d = openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	_, err = d.Acquire(t.Context(), request("order:3"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNotArmed)
	// A pass is a grant with a new token.
	_, err = d.Pass(t.Context(), passTo(held, request("order:1")))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNotArmed)
	// Who holds a lock goes on meanwhile: the record is there, so it was not lost.
	if _, err := d.Renew(t.Context(), renew(held)); err != nil {
		t.Errorf("renew on a server that is not armed: %v", err)
	}
	if err := d.Release(t.Context(), release(held)); err != nil {
		t.Errorf("release on a server that is not armed: %v", err)
	}
}

// TestV2_ForeignValues puts into the place of a lock what this protocol did not write. It must stay.
func TestV2_ForeignValuesAreLeftAlone(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server := startServer(t, access)
		d := openTenant(t, server.Addr(), access, nil)
		admin := server.Admin(t)
		ours := newID() + " 1764550000-1 me"
		for name, put := range map[string]func(key string) *redis.Cmd{
			"another library's lock": func(key string) *redis.Cmd { return admin.Do(t.Context(), "set", key, "worker-1", "px", 600000) },
			"empty":                  func(key string) *redis.Cmd { return admin.Do(t.Context(), "set", key, "", "px", 600000) },
			"an id alone":            func(key string) *redis.Cmd { return admin.Do(t.Context(), "set", key, newID(), "px", 600000) },
			"an id and more of it":   func(key string) *redis.Cmd { return admin.Do(t.Context(), "set", key, "0"+ours, "px", 600000) },
			"a record without end":   func(key string) *redis.Cmd { return admin.Do(t.Context(), "set", key, ours) },
			"a list":                 func(key string) *redis.Cmd { return admin.Do(t.Context(), "rpush", key, "a") },
			"a hash":                 func(key string) *redis.Cmd { return admin.Do(t.Context(), "hset", key, "a", "b") },
		} {
			req := request(name)
			key := redisproto.LockKey(prefix, name)
			if err := put(key).Err(); err != nil {
				t.Fatal(err)
			}
			before, err := admin.Dump(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			_, err = d.Acquire(t.Context(), req)
			if !errors.Is(err, driver.ErrForeign) {
				t.Errorf("%s: acquire: %v", name, err)
			}
			if _, err := d.Pass(t.Context(), passTo(req, request(name))); !errors.Is(err, driver.ErrForeign) {
				t.Errorf("%s: pass: %v", name, err)
			}
			if name != "a record without end" {
				if _, err := d.Renew(t.Context(), renew(req)); !errors.Is(err, driver.ErrForeign) {
					t.Errorf("%s: renew: %v", name, err)
				}
				if err := d.Release(t.Context(), release(req)); !errors.Is(err, driver.ErrForeign) {
					t.Errorf("%s: release: %v", name, err)
				}
				if _, err := d.Inspect(t.Context(), req.Key); !errors.Is(err, driver.ErrForeign) {
					t.Errorf("%s: inspect: %v", name, err)
				}
			}
			if after, err := admin.Dump(t.Context(), key).Result(); err != nil || after != before {
				t.Errorf("%s: was changed: %v", name, err)
			}
		}
	})
}

// An owner is data of its own: one that looks like a record, or has the other's id in it, changes nothing.
func TestV2_OwnersAreNoPartOfTheComparison(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	d := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	a := request("order:1")
	b := request("order:1")
	a.Owner = b.ID + " 9-9 " + b.ID
	mustAcquire(t, d, a)
	_, err := d.Acquire(t.Context(), b)
	var held *driver.HeldError
	if !errors.As(err, &held) || held.Owner != a.Owner || held.Remaining <= 0 || held.Remaining > longTTL {
		t.Errorf("held: %+v, %v", held, err)
	}
	if _, err := d.Renew(t.Context(), renew(b)); !errors.Is(err, driver.ErrNotHolder) {
		t.Errorf("renew with the id in the owner: %v", err)
	}
	if err := d.Release(t.Context(), release(b)); !errors.Is(err, driver.ErrNotHolder) {
		t.Errorf("release with the id in the owner: %v", err)
	}
	for _, part := range []string{"", a.ID[:31], a.ID + "0", a.ID + " ", strings.ToUpper(a.ID)} {
		if err := d.Release(t.Context(), driver.ReleaseRequest{Key: a.Key, ID: part}); !errors.Is(err, driver.ErrNotHolder) {
			t.Errorf("release with id %q: %v", part, err)
		}
	}
}

// TestV1_V3_V5 gives the server TTLs that a store could cut to nothing.
func TestV1_V3_V5_TTLsThatWouldBeCutAreRefused(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	d := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	held := request("held")
	mustAcquire(t, d, held)
	for _, ttl := range []time.Duration{-5 * time.Second, -1, 0, 1, 500 * time.Microsecond, 999 * time.Microsecond, time.Second + 1, time.Hour + time.Millisecond, 100 * 365 * 24 * time.Hour} {
		req := request("order:1")
		req.TTL = ttl
		_, err := d.Acquire(t.Context(), req)
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonBadRequest)
		_, err = d.Renew(t.Context(), driver.RenewRequest{Key: held.Key, ID: held.ID, TTL: ttl})
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonBadRequest)
		_, err = d.Pass(t.Context(), passTo(held, req))
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonBadRequest)
	}
	if holding, err := d.Inspect(t.Context(), held.Key); err != nil || holding.ID != held.ID {
		t.Errorf("the held lock is %+v, %v", holding, err)
	}
	// The server obeys its own maximum, whatever the client thinks; a quarantine depends on it.
	server.Prepare(t, prefix, redisproto.Epoch{Number: epoch.Number, MaxTTL: time.Minute, SelfArm: true})
	_, err := d.Acquire(t.Context(), request("order:1"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonTTLTooLong)
	_, err = d.Renew(t.Context(), renew(held))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonTTLTooLong)
	_, err = d.Pass(t.Context(), passTo(held, request("held")))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonTTLTooLong)
}

// Acquire, refusal and release are one round trip each.
func TestRoundTrips(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server := startServer(t, access)
		d := openTenant(t, server.Addr(), access, nil)
		warm := request("warm")
		mustAcquire(t, d, warm)
		admin := server.Admin(t)
		if err := admin.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		const rounds = 5
		for i := range rounds {
			req := request(fmt.Sprint("order:", i))
			mustAcquire(t, d, req)
			_, err := d.Acquire(t.Context(), request(fmt.Sprint("order:", i)))
			wantIs(t, err, driver.ErrHeld)
			if err := d.Release(t.Context(), release(req)); err != nil {
				t.Fatal(err)
			}
		}
		stats, err := admin.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, found := range regexp.MustCompile(`cmdstat_(?:fcall|evalsha|eval|script[^:]*):calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
			calls, err := strconv.Atoi(found[1])
			if err != nil {
				t.Fatal(err)
			}
			total += calls
		}
		if total != 3*rounds {
			t.Errorf("%d round trips for %d acquires, refusals and releases:\n%s", total, rounds, stats)
		}
	})
}

// A pass publishes nothing: the lock is not free, and whoever is woken would ask in vain.
func TestAPassIsNotPublished(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server := startServer(t, access)
		d := openTenant(t, server.Addr(), access, nil)
		first, second := request("order:1"), request("order:1")
		mustAcquire(t, d, first)
		listening := server.Admin(t).PSubscribe(t.Context(), prefix+"*")
		defer func() { _ = listening.Close() }()
		if _, err := listening.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Pass(t.Context(), passTo(first, second)); err != nil {
			t.Fatal(err)
		}
		if err := listening.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if next, err := listening.Receive(t.Context()); err != nil {
			t.Fatal(err)
		} else if _, pong := next.(*redis.Pong); !pong {
			t.Errorf("the pass published %v", next)
		}
		if err := d.Release(t.Context(), release(second)); err != nil {
			t.Fatal(err)
		}
		if _, err := listening.ReceiveMessage(t.Context()); err != nil {
			t.Errorf("the release: %v", err)
		}
	})
}

func TestScriptsAreSentWhenTheServerForgotThem(t *testing.T) {
	server := startServer(t, binding.AccessScripts)
	tenant := openTenant(t, server.Addr(), binding.AccessScripts, nil)
	own := openClient(t, server.ClientOptions("admin", server.AdminPassword()), &redislock.Options{Access: binding.AccessScripts})
	if err := server.Admin(t).ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	// A tenant may not send scripts, and waits for the operator.
	_, err := tenant.Acquire(t.Context(), request("order:1"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNoScript)
	req := request("order:1")
	mustAcquire(t, own, req)
	server.PreloadScripts(t)
	_, err = tenant.Acquire(t.Context(), request("order:1"))
	wantIs(t, err, driver.ErrHeld)
	if err := tenant.Release(t.Context(), release(req)); err != nil {
		t.Error(err)
	}
}

// On a server without functions it is the loaded script that says that locks may be granted, so nobody but the operator may load it.
func TestOnAnOperatedServerOnlyTheOperatorLoadsScripts(t *testing.T) {
	server := startServer(t, binding.AccessScripts)
	admin := server.Admin(t)
	if err := admin.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	// A user who may do everything, as the one that applications share where nobody can administer users.
	d := openClient(t, server.ClientOptions("admin", server.AdminPassword()), &redislock.Options{Access: binding.AccessScripts, Operated: true})
	_, err := d.Acquire(t.Context(), request("order:1"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNoScript)
	server.PreloadScripts(t)

	setEpoch := func(value string) {
		if err := admin.Set(t.Context(), redisproto.EpochKey(prefix), value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	mayNot := epoch
	mayNot.SelfArm = false
	setEpoch(mayNot.String())
	_, err = d.Acquire(t.Context(), request("order:1"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNotArmed)
	if err := admin.Del(t.Context(), redisproto.EpochKey(prefix)).Err(); err != nil {
		t.Fatal(err)
	}
	_, err = d.Acquire(t.Context(), request("order:1"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNoEpoch)
	setEpoch(epoch.String())
	req := request("order:1")
	mustAcquire(t, d, req)
	// What is held can be renewed and released while nothing is granted.
	setEpoch(mayNot.String())
	_, err = d.Pass(t.Context(), passTo(req, request("order:1")))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNotArmed)
	if _, err := d.Renew(t.Context(), renew(req)); err != nil {
		t.Error(err)
	}
	if err := d.Release(t.Context(), release(req)); err != nil {
		t.Error(err)
	}
}
