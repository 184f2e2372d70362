// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/clock/clocktest"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// list reads all pages.
func list(t *testing.T, d *redislock.Driver) map[string]driver.Holding {
	t.Helper()
	held := map[string]driver.Holding{}
	for req := (driver.ListRequest{Prefix: prefix, Limit: 10}); ; {
		page, err := d.List(t.Context(), req)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		for _, key := range page.Held {
			held[key.Name] = key.Holding
		}
		if req.Cursor = page.Next; req.Cursor == "" {
			return held
		}
	}
}

func cycle(t *testing.T, d *redislock.Driver, times int) {
	t.Helper()
	for range times {
		req := request("cycle")
		mustAcquire(t, d, req)
		if err := d.Release(t.Context(), release(req)); err != nil {
			t.Fatal(err)
		}
	}
}

// Holders that end by their TTL leave their names in the list of held keys. Grants sweep more than they can have left.
func TestTheListOfHeldKeysIsBounded(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server := startServer(t, access)
		admin := server.Admin(t)
		d := openTenant(t, server.Addr(), access, nil)
		alive := request("alive")
		mustAcquire(t, d, alive)
		const dead, grants = 100, 64
		for i := range dead {
			if err := admin.ZAdd(t.Context(), redisproto.HeldKey(prefix), redis.Z{Score: 1, Member: fmt.Sprint("dead:", i)}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		// A renewal that was not noted leaves a holder among them.
		if err := admin.ZAdd(t.Context(), redisproto.HeldKey(prefix), redis.Z{Score: 1, Member: "alive"}).Err(); err != nil {
			t.Fatal(err)
		}
		if got := list(t, d); len(got) != 1 || got["alive"].ID != alive.ID {
			t.Errorf("the list before the sweep is %v", got)
		}
		cycle(t, d, grants)
		names, err := admin.ZRange(t.Context(), redisproto.HeldKey(prefix), 0, -1).Result()
		if err != nil || !slices.Equal(names, []string{"alive"}) {
			t.Errorf("after %d grants the list has %q, %v, want the key that is held", grants, names, err)
		}
	})
}

// A tenant can write its list of held keys as it likes. It then lists wrongly to itself, and locks as ever.
func TestTheListOfHeldKeysIsNotTrusted(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server, ours, _ := startTenants(t, access)
		d := driverOn(t, ours, access)
		mine := request("order:1")
		mustAcquire(t, d, mine)
		key := redisproto.HeldKey(prefix)
		for _, score := range []string{"-inf", "+inf", "1", "nonsense"} {
			_ = ours.Do(t.Context(), "zadd", key, score, "ghost "+score).Err()
		}
		if err := ours.Set(t.Context(), redisproto.LockKey(prefix, "ghost +inf"), "no record", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got := list(t, d); len(got) != 1 || got["order:1"].ID != mine.ID {
			t.Errorf("the list is %v, want the one key that is held", got)
		}
		if err := ours.Set(t.Context(), key, "nothing", 0).Err(); err != nil {
			t.Fatal(err)
		}
		_, err := d.List(t.Context(), driver.ListRequest{Prefix: prefix, Limit: 1})
		wantIs(t, err, driver.ErrForeign)
		cycle(t, d, 32)
		if _, err := d.Renew(t.Context(), renew(mine)); err != nil {
			t.Error(err)
		}
		if _, err := d.ForceRelease(t.Context(), driver.ForceReleaseRequest{Key: mine.Key, ID: mine.ID}); err != nil {
			t.Error(err)
		}
		// It is whole again once that is gone: renewals and grants write it.
		again := request("order:1")
		if err := server.Admin(t).Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		mustAcquire(t, d, again)
		if err := server.Admin(t).Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Renew(t.Context(), renew(again)); err != nil {
			t.Error(err)
		}
		if got := list(t, d); len(got) != 1 || got["order:1"].ID != again.ID {
			t.Errorf("the list is %v, want the key that was renewed", got)
		}
	})
}

// A user whose rights are older than the list locks as before, and is told what it lacks when it asks for the list.
func TestLocksNeedNoRightToTheList(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		user := tenantUser("lk:{test/*}:", access)
		user.Rules = slices.DeleteFunc(user.Rules, func(rule string) bool { return strings.HasPrefix(rule, "+z") || strings.HasSuffix(rule, "!held") })
		server := redistest.Start(t, &redistest.Options{Users: []redisproto.User{user}})
		server.Prepare(t, prefix, epoch)
		server.PreloadScripts(t)
		d := openTenant(t, server.Addr(), access, nil)
		cycle(t, d, 32)
		one, two := request("order:1"), request("order:1")
		mustAcquire(t, d, one)
		if _, err := d.Renew(t.Context(), renew(one)); err != nil {
			t.Error(err)
		}
		if _, err := d.Pass(t.Context(), passTo(one, two)); err != nil {
			t.Error(err)
		}
		_, err := d.List(t.Context(), driver.ListRequest{Prefix: prefix, Limit: 1})
		wantRefused(t, err, redislock.ReasonPermission, true)
		forced, err := d.ForceRelease(t.Context(), driver.ForceReleaseRequest{Key: two.Key})
		if err != nil || forced.Holding.ID != two.ID {
			t.Errorf("forced release: %+v, %v", forced, err)
		}
	})
}

// refusedCalls is how many calls of the driver the server has refused at the door.
func refusedCalls(t *testing.T, server *redistest.Server) (sum int) {
	t.Helper()
	stats, err := server.Admin(t).Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`cmdstat_(?:fcall|evalsha):.*,rejected_calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// Rights that are granted later are found within a minute: until then the driver does not ask for the list at every call.
func TestTheListBeginsWithTheRightToIt(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		whole := tenantUser("lk:{test/*}:", access)
		old := whole
		old.Rules = slices.DeleteFunc(slices.Clone(whole.Rules), func(rule string) bool { return strings.HasPrefix(rule, "+z") || strings.HasSuffix(rule, "!held") })
		server := redistest.Start(t, &redistest.Options{Users: []redisproto.User{old}})
		server.Prepare(t, prefix, epoch)
		server.PreloadScripts(t)
		hand := &clocktest.Hand{}
		d := openTenant(t, server.Addr(), access, &redislock.Options{Clock: hand})
		first, second := request("order:1"), request("order:2")
		mustAcquire(t, d, first)
		mustAcquire(t, d, second)
		before := refusedCalls(t, server)
		if _, err := d.Renew(t.Context(), renew(first)); err != nil {
			t.Error(err)
		}
		if after := refusedCalls(t, server); before == 0 || after != before {
			t.Errorf("%d calls were refused before the list was known to be out of reach, and %d after", before, after-before)
		}

		args, err := whole.SetUserArgs()
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Admin(t).ACLSetUser(t.Context(), args[0], args[1:]...).Err(); err != nil {
			t.Fatal(err)
		}
		hand.Advance(time.Minute)
		for _, outcome := range d.RenewBatch(t.Context(), []driver.RenewRequest{renew(first), renew(second)}) {
			if outcome.Err != nil {
				t.Error(outcome.Err)
			}
		}
		if got := list(t, d); len(got) != 2 || got["order:1"].ID != first.ID || got["order:2"].ID != second.ID {
			t.Errorf("the list is %v, want both keys that were renewed", got)
		}
	})
}

// What an older version granted has no time, and is not in the list before its renewal.
func TestARecordOfAnOlderVersion(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	admin := server.Admin(t)
	d := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	req := request("order:1")
	old := fmt.Sprintf("%s %d-7 a pod", req.ID, epoch.Number)
	if err := admin.Set(t.Context(), redisproto.LockKey(prefix, "order:1"), old, longTTL).Err(); err != nil {
		t.Fatal(err)
	}
	if got := list(t, d); len(got) != 0 {
		t.Errorf("the list is %v before the renewal", got)
	}
	if _, err := d.Renew(t.Context(), renew(req)); err != nil {
		t.Fatal(err)
	}
	got := list(t, d)["order:1"]
	want := driver.Holding{Held: true, ID: req.ID, Owner: "a pod", Token: driver.Token{Epoch: epoch.Number, Sequence: 7}, Remaining: got.Remaining}
	if got != want {
		t.Errorf("the list has %+v, want %+v", got, want)
	}
	// A client of an older version releases without the counter.
	keys := []string{redisproto.LockKey(prefix, "order:1")}
	if err := admin.FCall(t.Context(), redisproto.FunctionRelease, keys, req.ID, redisproto.Channel(prefix, "order:1")).Err(); err != nil {
		t.Fatal(err)
	}
	if got := list(t, d); len(got) != 0 {
		t.Errorf("the list is %v after the release", got)
	}
	// What this version grants has the server's time.
	mustAcquire(t, d, request("order:2"))
	before, err := admin.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	if since := list(t, d)["order:2"].Since; since.IsZero() || since.After(before) || before.Sub(since) > patience {
		t.Errorf("held since %s, want the server's time, which was %s afterwards", since, before)
	}
}

// A server whose library is of an older version grants and releases, and what it does not know is named with what to do.
func TestAServerOfAnOlderVersion(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	var older []string
	for line := range strings.Lines(redisproto.Library()) {
		if !strings.Contains(line, redisproto.FunctionList+"'") && !strings.Contains(line, redisproto.FunctionForceRelease+"'") {
			older = append(older, line)
		}
	}
	if err := server.Admin(t).FunctionLoadReplace(t.Context(), strings.Join(older, "")).Err(); err != nil {
		t.Fatal(err)
	}
	d := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	cycle(t, d, 1)
	_, err := d.List(t.Context(), driver.ListRequest{Prefix: prefix, Limit: 1})
	wantRefused(t, err, redislock.ReasonNoFunction, true)
	_, err = d.ForceRelease(t.Context(), driver.ForceReleaseRequest{Key: lockKey("order:1")})
	wantRefused(t, err, redislock.ReasonNoFunction, true)
}

// A lock can be taken away when the server grants none: its memory is full, or it is not armed.
func TestAForcedReleaseNeedsNoGrant(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server := startServer(t, access, "maxmemory 6mb")
		admin := server.Admin(t)
		d := openTenant(t, server.Addr(), access, nil)
		one, two := request("order:1"), request("order:2")
		token := mustAcquire(t, d, one).Token
		mustAcquire(t, d, two)
		fill(t, admin)
		_, err := d.Acquire(t.Context(), request("order:3"))
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonOOM)
		forced, err := d.ForceRelease(t.Context(), driver.ForceReleaseRequest{Key: one.Key, ID: one.ID})
		if err != nil || forced.Holding.ID != one.ID || !token.Less(forced.Fence) {
			t.Errorf("forced release with a full memory: %+v, %v", forced, err)
		}
		unarmed := epoch
		unarmed.Number, unarmed.SelfArm = epoch.Number+1, false
		configure(t, admin, "maxmemory", "0")
		server.Prepare(t, prefix, unarmed)
		_, err = d.Acquire(t.Context(), request("order:3"))
		if access == binding.AccessFunctions {
			wantFault(t, err, driver.ErrUnavailable, redislock.ReasonNotArmed)
		}
		forced, err = d.ForceRelease(t.Context(), driver.ForceReleaseRequest{Key: two.Key})
		if err != nil || forced.Holding.ID != two.ID || forced.Fence.Epoch != unarmed.Number {
			t.Errorf("forced release on an unarmed server: %+v, %v", forced, err)
		}
		if remaining := forced.Holding.Remaining; remaining <= 0 || remaining > longTTL || forced.Holding.Since.After(time.Now()) {
			t.Errorf("what was taken away is %+v", forced.Holding)
		}
	})
}
