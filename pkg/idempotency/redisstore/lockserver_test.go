// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/idempotencytest"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore/recordproto"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

const tenantPrefix = "lk:{test/app}:"

// tenancy is a lock namespace on a server of locks, prepared as the operator does.
type tenancy struct {
	server *redistest.Server
	admin  *redis.Client
	// client logs in as the tenant.
	client *redis.Client
	store  *redisstore.LockServer
}

func startTenancy(t *testing.T, limits recordproto.Limits) *tenancy {
	t.Helper()
	server := redistest.Start(t, nil)
	server.Prepare(t, tenantPrefix, redisproto.Epoch{Number: 1764550000, MaxTTL: time.Hour, SelfArm: true})
	n := &tenancy{server: server, admin: server.Admin(t)}
	n.must(t, "function", "load", recordproto.Library())
	n.grant(t, limits, "lk-holder")
	n.client = n.login(t, tenantPrefix, recordproto.TenantRules("lk", tenantPrefix)...)
	n.store = n.open(t, n.client, tenantPrefix)
	return n
}

func (n *tenancy) must(t *testing.T, command ...any) {
	t.Helper()
	if err := n.admin.Do(t.Context(), command...).Err(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

func (n *tenancy) limit(t *testing.T, limits recordproto.Limits, part int) {
	t.Helper()
	n.must(t, "set", recordproto.LimitsKey(tenantPrefix), limits.String())
	n.must(t, "set", recordproto.PartKey("lk"), part)
}

// grant is what the operator does for a holder.
func (n *tenancy) grant(t *testing.T, limits recordproto.Limits, holder string) (changed bool) {
	t.Helper()
	reply, err := n.admin.FCall(t.Context(), recordproto.FunctionGrant, []string{recordproto.RecordsKey(tenantPrefix)}, limits.String(), holder).Int()
	if err != nil {
		t.Fatal(err)
	}
	return reply == 1
}

func (n *tenancy) withdraw(t *testing.T, holder string) (changed bool) {
	t.Helper()
	reply, err := n.admin.FCall(t.Context(), recordproto.FunctionWithdraw, []string{recordproto.RecordsKey(tenantPrefix)}, holder).Int()
	if err != nil {
		t.Fatal(err)
	}
	return reply == 1
}

// login makes a user of a lock namespace, with more rules, and logs in.
func (n *tenancy) login(t *testing.T, prefix string, more ...string) *redis.Client {
	t.Helper()
	password := rand.Text()
	user := redisproto.User{
		Name: "lk-" + rand.Text(), PasswordHashes: []string{redisproto.PasswordHash(password)},
		Rules: append(redisproto.TenantRules(prefix, binding.AccessFunctions), more...),
	}
	words, err := user.SetUserArgs()
	if err != nil {
		t.Fatal(err)
	}
	command := []any{"acl", "setuser"}
	for _, word := range words {
		command = append(command, word)
	}
	n.must(t, command...)
	return n.server.Client(t, user.Name, password)
}

func (n *tenancy) open(t *testing.T, client redis.UniversalClient, prefix string) *redisstore.LockServer {
	t.Helper()
	store, err := redisstore.OnLockServer(client, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// sweep is what the operator does: it returns the bytes that are charged, the records, and whether they were counted anew.
func (n *tenancy) sweep(t *testing.T) (used, records int64, again bool) {
	t.Helper()
	reply, err := n.admin.FCall(t.Context(), recordproto.FunctionSweep, []string{recordproto.RecordsKey(tenantPrefix)}).Int64Slice()
	if err != nil || len(reply) != 4 {
		t.Fatalf("sweep: %v, %v", reply, err)
	}
	return reply[0], reply[1], reply[2] == 1
}

// done begins and completes a record.
func (n *tenancy) done(t *testing.T, response []byte, retention time.Duration) (idempotency.Key, idempotency.Claim, error) {
	t.Helper()
	key, claim := newKey(), newClaim()
	if _, err := n.store.Begin(t.Context(), key, claim); err != nil {
		return key, claim, err
	}
	return key, claim, n.store.Complete(t.Context(), key, claim.Ownership, idempotency.Result{State: idempotency.Done, Response: response, Retention: retention})
}

// lock takes and frees a lock as the same tenant.
func (n *tenancy) lock(t *testing.T) {
	t.Helper()
	d, err := redislock.New(n.client, &redislock.Options{Access: binding.AccessFunctions})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	locks, err := lock.New(d, tenantPrefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locks.Close(context.Background()) }()
	h, err := locks.TryAcquire(t.Context(), "order:1", time.Minute, 0)
	if err != nil {
		t.Fatalf("a lock was refused: %v", err)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const mebi = 1 << 20

func TestConformanceOnTheLockServer(t *testing.T) {
	const limit = 100_000
	n := startTenancy(t, recordproto.Limits{MaxResponse: limit, Share: 16 * mebi})
	idempotencytest.Run(t, idempotencytest.Harness{MaxResponse: limit, NewStore: func(*testing.T) idempotency.Store { return n.store }})
	used, records, again := n.sweep(t)
	if records == 0 || used == 0 || again {
		t.Errorf("after the suite the sweep found %d bytes, %d records, counted anew: %v", used, records, again)
	}
}

func TestRecordsAreRefusedWhenTheShareIsUsedAndLocksAreNot(t *testing.T) {
	n := startTenancy(t, recordproto.Limits{MaxResponse: 64 << 10, Share: mebi})
	response := []byte(strings.Repeat("x", 40_000))
	kept := map[idempotency.Key]bool{}
	var refused error
	var last idempotency.Key
	var claim idempotency.Claim
	for refused == nil {
		var key idempotency.Key
		if key, claim, refused = n.done(t, response, time.Hour); refused == nil {
			kept[key] = true
		}
		last = key
		if len(kept) > 100 {
			t.Fatal("the share is not enforced")
		}
	}
	full, ok := errors.AsType[*idempotency.StoreFullError](refused)
	if !ok || full.Share != mebi || full.Used > mebi || full.Used < mebi/2 || !strings.Contains(refused.Error(), "spec.idempotencyRecords.memory") {
		t.Fatalf("refused with %v", refused)
	}
	n.lock(t)
	// What was begun can be ended without its response, and is not executed again.
	if record, err := n.store.Get(t.Context(), last); err != nil || !record.Owned(claim.Ownership) {
		t.Fatalf("the last record is %+v, %v", record, err)
	}
	if err := n.store.Complete(t.Context(), last, claim.Ownership, idempotency.Result{State: idempotency.Tombstone, Response: make([]byte, 256), Retention: time.Hour}); err != nil {
		t.Errorf("a tombstone in a full share: %v", err)
	}
	// Small ones fill the rest. All that was kept is there.
	for range mebi / 1216 {
		if _, err := n.store.Begin(t.Context(), newKey(), newClaim()); err != nil {
			refused = err
			break
		}
	}
	if !errors.Is(refused, idempotency.ErrStoreFull) {
		t.Errorf("at the end: %v", refused)
	}
	for key := range kept {
		if record, err := n.store.Get(t.Context(), key); err != nil || record.State != idempotency.Done || len(record.Response) != len(response) {
			t.Fatalf("a record that was kept is %v with %d bytes, %v", record.State, len(record.Response), err)
		}
	}
	if used, _, again := n.sweep(t); used > mebi || again {
		t.Errorf("%d bytes of a share of %d are charged, counted anew: %v", used, mebi, again)
	}
	if err := n.store.Complete(t.Context(), newKey(), claim.Ownership, idempotency.Result{State: idempotency.Done, Response: response, Retention: time.Hour}); !errors.Is(err, idempotency.ErrClaimLost) {
		t.Errorf("complete of no record: %v", err)
	}
	n.lock(t)
}

func TestAShareHasRoomAgainWhenRecordsEnd(t *testing.T) {
	n := startTenancy(t, recordproto.Limits{MaxResponse: 1 << 10, Share: 10 * 1216})
	for range 10 {
		key, claim := newKey(), newClaim()
		claim.Lease, claim.Retention = 50*time.Millisecond, 50*time.Millisecond
		if _, err := n.store.Begin(t.Context(), key, claim); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	key, claim := newKey(), newClaim()
	var err error
	for err = errors.New("not tried"); err != nil && ctx.Err() == nil; {
		_, err = n.store.Begin(ctx, key, claim)
	}
	if err != nil {
		t.Fatalf("room was not made: %v", err)
	}
	used, records, again := n.sweep(t)
	for records > 1 && ctx.Err() == nil {
		used, records, again = n.sweep(t)
	}
	if used != 1216 || records != 1 || again {
		t.Errorf("%d bytes, %d records, counted anew: %v", used, records, again)
	}
	if err := n.store.Abort(ctx, key, claim.Ownership); err != nil {
		t.Fatal(err)
	}
	if used, records, again := n.sweep(t); used != 0 || records != 0 || again {
		t.Errorf("after an abort: %d bytes, %d records, counted anew: %v", used, records, again)
	}
}

func TestRecordsOfAnIdleApplicationGoByThemselves(t *testing.T) {
	n := startTenancy(t, recordproto.Limits{MaxResponse: 1 << 10, Share: mebi})
	if _, _, err := n.done(t, []byte("x"), 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.done(t, []byte("x"), time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{recordproto.RecordsKey(tenantPrefix), recordproto.EndsKey(tenantPrefix)} {
		if left := n.admin.PTTL(t.Context(), key).Val(); left <= time.Hour || left > 2*time.Hour {
			t.Errorf("%s runs out in %s, want the longest retention", key, left)
		}
	}
}

func TestALargestResponseIsEnforced(t *testing.T) {
	n := startTenancy(t, recordproto.Limits{MaxResponse: 4 << 10, Share: mebi})
	_, _, err := n.done(t, make([]byte, 4<<10+1), time.Hour)
	if large, ok := errors.AsType[*idempotency.TooLargeError](err); !ok || large.Max != 4<<10 || large.Size != 4<<10+1 {
		t.Errorf("a response that is a byte too large: %v", err)
	}
	if _, _, err := n.done(t, make([]byte, 4<<10), time.Hour); err != nil {
		t.Errorf("the largest response: %v", err)
	}
}

// What is charged is what the server needs: otherwise a share would be no bound.
func TestTheChargeCoversTheMemory(t *testing.T) {
	for _, size := range []int{0, 700, 1500, 5000, 20_000, 70_000} {
		n := startTenancy(t, recordproto.Limits{MaxResponse: 1 << 20, Share: 64 * mebi})
		for range 200 {
			if _, _, err := n.done(t, make([]byte, size), time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		used, _, _ := n.sweep(t)
		var needed int64
		for _, key := range []string{recordproto.RecordsKey(tenantPrefix), recordproto.EndsKey(tenantPrefix)} {
			needed += n.admin.MemoryUsage(t.Context(), key, 0).Val()
		}
		t.Logf("200 records with %d bytes of response: %d bytes are charged, the server needs %d", size, used, needed)
		if needed == 0 || needed > used {
			t.Errorf("200 records with %d bytes need %d bytes and are charged with %d", size, needed, used)
		}
	}
}

func TestWhileRecordsAreStoppedWhatWasBegunEnds(t *testing.T) {
	limits := recordproto.Limits{MaxResponse: 64 << 10, Share: mebi}
	for name, stop := range map[string]func(n *tenancy){
		"the operator has stopped records": func(n *tenancy) { n.limit(t, limits, 0) },
		"the server is full":               func(n *tenancy) { n.must(t, "config", "set", "maxmemory", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			n := startTenancy(t, limits)
			stored, _, err := n.done(t, []byte("answer"), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			keys, claims := []idempotency.Key{newKey(), newKey(), newKey()}, []idempotency.Claim{newClaim(), newClaim(), newClaim()}
			for i := range keys {
				if _, err := n.store.Begin(t.Context(), keys[i], claims[i]); err != nil {
					t.Fatal(err)
				}
			}
			stop(n)
			if _, err := n.store.Begin(t.Context(), newKey(), newClaim()); !errors.Is(err, idempotency.ErrStoreFull) {
				t.Errorf("begin: %v", err)
			}
			if record, err := n.store.Get(t.Context(), stored); err != nil || string(record.Response) != "answer" {
				t.Errorf("get: %+v, %v", record, err)
			}
			done := idempotency.Result{State: idempotency.Done, Response: make([]byte, 32<<10), Retention: time.Hour}
			if err := n.store.Complete(t.Context(), keys[0], claims[0].Ownership, done); !errors.Is(err, idempotency.ErrStoreFull) {
				t.Errorf("complete with a long response: %v", err)
			}
			bare := idempotency.Result{State: idempotency.Tombstone, Response: []byte{1}, Retention: time.Hour}
			if err := n.store.Complete(t.Context(), keys[0], claims[0].Ownership, bare); err != nil {
				t.Errorf("complete without: %v", err)
			}
			if err := n.store.Extend(t.Context(), keys[1], claims[1].Ownership, time.Hour); err != nil {
				t.Errorf("extend: %v", err)
			}
			if err := n.store.Abort(t.Context(), keys[2], claims[2].Ownership); err != nil {
				t.Errorf("abort: %v", err)
			}
			if used, records, again := n.sweep(t); records != 3 || used != 3*1216 || again {
				t.Errorf("%d bytes, %d records, counted anew: %v", used, records, again)
			}
		})
	}
}

func TestWithoutTheRightNoRecordIsWritten(t *testing.T) {
	n := startTenancy(t, recordproto.Limits{MaxResponse: 1 << 10, Share: mebi})
	key, claim, err := n.done(t, []byte("answer"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	const other = "lk:{test/other}:"
	withoutRight := n.login(t, tenantPrefix)
	for name, client := range map[string]*redis.Client{
		"the tenant without the right":          withoutRight,
		"another tenant without the right":      n.login(t, other),
		"another tenant with the right":         n.login(t, other, recordproto.TenantRules("lk", other)...),
		"a tenant whose prefix begins the same": n.login(t, "lk:{test/ap}:", recordproto.TenantRules("lk", "lk:{test/ap}:")...),
	} {
		store := n.open(t, client, tenantPrefix)
		_, getErr := store.Get(t.Context(), key)
		_, beginErr := store.Begin(t.Context(), newKey(), newClaim())
		for op, err := range map[string]error{
			"get": getErr, "begin": beginErr,
			"extend":   store.Extend(t.Context(), key, claim.Ownership, time.Hour),
			"abort":    store.Abort(t.Context(), key, claim.Ownership),
			"complete": store.Complete(t.Context(), key, claim.Ownership, idempotency.Result{State: idempotency.Done, Retention: time.Hour}),
			"by hand":  n.open(t, client, tenantPrefix).Extend(t.Context(), key, claim.Ownership, time.Hour),
		} {
			if refused, ok := errors.AsType[*redisstore.NotGrantedError](err); !ok || !strings.Contains(refused.Error(), "spec.idempotencyRecords") {
				t.Errorf("%s: %s: %v", name, op, err)
			}
		}
		for _, command := range [][]any{
			{"hset", recordproto.RecordsKey(tenantPrefix), "x", "y"}, {"hget", recordproto.RecordsKey(tenantPrefix), "x"},
			{"del", recordproto.RecordsKey(tenantPrefix)}, {"zadd", recordproto.EndsKey(tenantPrefix), "1", "x"}, {"get", recordproto.LimitsKey(tenantPrefix)},
		} {
			if err := client.Do(t.Context(), command...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
				t.Errorf("%s: %v: %v", name, command, err)
			}
		}
	}
	// Nobody but the operator changes what may be kept.
	for _, command := range [][]any{
		{"set", recordproto.LimitsKey(tenantPrefix), "1 1"}, {"del", recordproto.LimitsKey(tenantPrefix)}, {"set", recordproto.PartKey("lk"), "1000"},
		{"hset", recordproto.IndexKey("lk"), "x", "y"}, {"hget", recordproto.IndexKey("lk"), "x"}, {"hset", recordproto.LimitsKey(tenantPrefix), "x", "y"},
		{"fcall", recordproto.FunctionSweep, 1, recordproto.RecordsKey(tenantPrefix)},
		{"fcall", recordproto.FunctionGrant, 1, recordproto.RecordsKey(tenantPrefix), "9 999999999", "me"},
		{"fcall", recordproto.FunctionWithdraw, 1, recordproto.RecordsKey(tenantPrefix), "lk-holder"},
	} {
		if err := n.client.Do(t.Context(), command...).Err(); err == nil || !denied(err) {
			t.Errorf("the tenant with the right: %v: %v", command, err)
		}
	}
	if record, err := n.store.Get(t.Context(), key); err != nil || string(record.Response) != "answer" {
		t.Errorf("the record is %+v, %v", record, err)
	}
}

// denied reports whether a right was missing, of the call itself or within the function.
func denied(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "The user executing the script can't") || strings.Contains(text, "ACL failure in script")
}

func TestEveryRightForRecordsIsNeeded(t *testing.T) {
	n := startTenancy(t, recordproto.Limits{MaxResponse: 1 << 10, Share: mebi})
	use := func(rules []string) error {
		store := n.open(t, n.login(t, tenantPrefix, rules...), tenantPrefix)
		key, claim, other := newKey(), newClaim(), newKey()
		_, err := store.Begin(t.Context(), key, claim)
		_, otherErr := store.Begin(t.Context(), other, claim)
		_, getErr := store.Get(t.Context(), key)
		return errors.Join(err, otherErr, getErr, store.Extend(t.Context(), key, claim.Ownership, 2*time.Hour), store.Abort(t.Context(), other, claim.Ownership),
			store.Complete(t.Context(), key, claim.Ownership, idempotency.Result{State: idempotency.Done, Response: make([]byte, 1<<10), Retention: time.Hour}))
	}
	rules := recordproto.TenantRules("lk", tenantPrefix)
	if err := use(rules); err != nil {
		t.Errorf("with all of them: %v", err)
	}
	for i, rule := range rules {
		if err := use(append(append([]string{}, rules[:i]...), rules[i+1:]...)); err == nil {
			t.Errorf("without %s nothing fails", rule)
		}
	}
}

func TestTheCountIsRightAgainAfterKeysWereChangedByHand(t *testing.T) {
	n := startTenancy(t, recordproto.Limits{MaxResponse: 64 << 10, Share: mebi})
	records, ends := recordproto.RecordsKey(tenantPrefix), recordproto.EndsKey(tenantPrefix)
	for name, change := range map[string]struct {
		commands [][]any
		kept     int64
	}{
		"the count is gone":              {[][]any{{"hdel", records, "!used"}}, 3},
		"the count is too small":         {[][]any{{"hset", records, "!used", "5"}}, 3},
		"the count is no number":         {[][]any{{"hset", records, "!used", "much"}}, 3},
		"the list is gone":               {[][]any{{"del", ends}}, 3},
		"the records are gone":           {[][]any{{"del", records}}, 0},
		"all is gone":                    {[][]any{{"del", records, ends}}, 0},
		"something is among the records": {[][]any{{"hset", records, "x", "y"}}, 3},
		"something is among the names":   {[][]any{{"zadd", ends, 9e15, "x"}}, 3},
		"the records are a text":         {[][]any{{"set", records, "x"}}, 0},
		"the list is a text":             {[][]any{{"set", ends, "x"}}, 3},
		"the records do not run out":     {[][]any{{"persist", records}}, 3},
	} {
		n.must(t, "del", records, ends)
		var charged int64
		var key idempotency.Key
		for _, size := range []int{0, 2000, 30_000} {
			var err error
			if key, _, err = n.done(t, make([]byte, size), time.Hour); err != nil {
				t.Fatalf("%s: before: %v", name, err)
			}
		}
		charged, _, _ = n.sweep(t)
		for _, command := range change.commands {
			n.must(t, command...)
		}
		used, count, again := n.sweep(t)
		if count != change.kept || (change.kept > 0 && used != charged) || (change.kept == 0 && used != 0) {
			t.Errorf("%s: %d bytes in %d records, counted anew: %v; before there were %d bytes", name, used, count, again, charged)
		}
		if _, _, again := n.sweep(t); again {
			t.Errorf("%s: the next sweep counts anew again", name)
		}
		if record, err := n.store.Get(t.Context(), key); err != nil || (record.State == idempotency.Done) != (change.kept > 0) {
			t.Errorf("%s: a record is %s, %v", name, record.State, err)
		}
		if left := n.admin.PTTL(t.Context(), records).Val(); change.kept > 0 && (left <= 0 || left > time.Hour) {
			t.Errorf("%s: the records run out in %s", name, left)
		}
		if _, _, err := n.done(t, nil, time.Hour); err != nil {
			t.Errorf("%s: afterwards: %v", name, err)
		}
	}
}

func TestRecordsOnTheLockServerSurviveARestart(t *testing.T) {
	n := startTenancy(t, recordproto.Limits{MaxResponse: 1 << 10, Share: mebi})
	key, claim := newKey(), newClaim()
	if _, err := n.store.Begin(t.Context(), key, claim); err != nil {
		t.Fatal(err)
	}
	before, _, _ := n.sweep(t)
	n.server.Kill(t)
	if err := n.store.Extend(t.Context(), key, claim.Ownership, time.Minute); err == nil || errors.Is(err, idempotency.ErrClaimLost) || errors.Is(err, idempotency.ErrStoreFull) {
		t.Errorf("with the server down: %v, want a fault", err)
	}
	n.server.Run(t)
	// The users of this test are not in the file that the server boots from.
	n.client = n.login(t, tenantPrefix, recordproto.TenantRules("lk", tenantPrefix)...)
	n.store = n.open(t, n.client, tenantPrefix)
	if err := n.store.Complete(t.Context(), key, claim.Ownership, idempotency.Result{State: idempotency.Done, Response: []byte("answer"), Retention: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if used, records, again := n.sweep(t); used != before || records != 1 || again {
		t.Errorf("after the restart %d bytes, %d records, counted anew: %v; before %d bytes", used, records, again, before)
	}
}

func TestWithoutLimitsNothingIsKept(t *testing.T) {
	n := startTenancy(t, recordproto.Limits{MaxResponse: 1 << 10, Share: mebi})
	for name, command := range map[string][]any{
		"no limits":       {"del", recordproto.LimitsKey(tenantPrefix)},
		"no part":         {"del", recordproto.PartKey("lk")},
		"limits of else":  {"set", recordproto.LimitsKey(tenantPrefix), "much"},
		"a part of else":  {"set", recordproto.PartKey("lk"), "-1"},
		"no such library": {"function", "delete", recordproto.LibraryName},
	} {
		n.must(t, command...)
		_, err := n.store.Begin(t.Context(), newKey(), newClaim())
		if refused, ok := errors.AsType[*redisstore.NotGrantedError](err); !ok || refused.Prefix != tenantPrefix {
			t.Errorf("%s: %v", name, err)
		}
		n.limit(t, recordproto.Limits{MaxResponse: 1 << 10, Share: mebi}, recordproto.Whole)
		if name == "no such library" {
			n.must(t, "function", "load", recordproto.Library())
		}
	}
}

func TestRecordsBelongToOneHolder(t *testing.T) {
	limits := recordproto.Limits{MaxResponse: 1 << 10, Share: mebi}
	n := startTenancy(t, limits)
	key, _, err := n.done(t, []byte("answer"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if n.grant(t, limits, "lk-holder") {
		t.Error("a grant that is there was written again")
	}
	raised := recordproto.Limits{MaxResponse: 1 << 10, Share: 2 * mebi}
	if !n.grant(t, raised, "lk-holder") || n.withdraw(t, "lk-other") {
		t.Error("a raise was not written, or a stranger withdrew the records")
	}
	if record, err := n.store.Get(t.Context(), key); err != nil || record.State != idempotency.Done {
		t.Fatalf("after the raise the record is %s, %v", record.State, err)
	}
	// A lock namespace that is made anew with the same name does not inherit them.
	if !n.grant(t, raised, "lk-other") {
		t.Error("a new holder changed nothing")
	}
	if record, err := n.store.Get(t.Context(), key); err != nil || record.State != idempotency.Absent {
		t.Errorf("the new holder has a record that is %s, %v", record.State, err)
	}
	if _, _, err := n.done(t, nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	if n.withdraw(t, "lk-holder") || !n.withdraw(t, "lk-other") || n.withdraw(t, "lk-other") {
		t.Error("not the holder alone withdraws, and once")
	}
	if keys := n.admin.Keys(t.Context(), tenantPrefix+"!records*").Val(); len(keys) > 0 {
		t.Errorf("left over: %v", keys)
	}
	if _, err := n.store.Begin(t.Context(), key, newClaim()); fmt.Sprintf("%T", err) != "*redisstore.NotGrantedError" {
		t.Errorf("without a grant: %v", err)
	}
}

func TestOnLockServerRefusesWhatCannotWork(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"})
	defer func() { _ = client.Close() }()
	for name, open := range map[string]func() (*redisstore.LockServer, error){
		"no client": func() (*redisstore.LockServer, error) { return redisstore.OnLockServer(nil, tenantPrefix) },
		"no prefix": func() (*redisstore.LockServer, error) { return redisstore.OnLockServer(client, "app") },
	} {
		if _, err := open(); fmt.Sprintf("%T", err) != "*idempotency.InvalidError" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
