// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// theirs is the prefix of the other tenant. It begins like prefix on purpose.
const theirs = "lk:{test/one-more}:"

// startTenants starts a server for two tenants, each limited to its own prefix.
func startTenants(t *testing.T, access binding.Access, config ...string) (server *redistest.Server, ours, other *redis.Client) {
	t.Helper()
	user := func(name, prefix string) redisproto.User {
		return redisproto.User{Name: name, PasswordHashes: []string{redisproto.PasswordHash("pw-" + name)}, Rules: redisproto.TenantRules(prefix, access)}
	}
	server = redistest.Start(t, &redistest.Options{Config: config, Users: []redisproto.User{user("ours", prefix), user("theirs", theirs)}})
	server.Prepare(t, prefix, epoch)
	server.Prepare(t, theirs, epoch)
	server.PreloadScripts(t)
	return server, server.Client(t, "ours", "pw-ours"), server.Client(t, "theirs", "pw-theirs")
}

func driverOn(t *testing.T, client redis.UniversalClient, access binding.Access) *redislock.Driver {
	t.Helper()
	d, err := redislock.New(client, &redislock.Options{Access: access})
	if err != nil {
		t.Fatal(err)
	}
	closeWithTest(t, d)
	return d
}

// denied reports whether the server refused for want of a right, at the door or inside a function.
func denied(err error) bool {
	if err == nil {
		return false
	}
	for _, text := range []string{"NOPERM", "The user executing the script can't", "ACL failure in script"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

func TestTenantsCannotTouchEachOther(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		_, ours, other := startTenants(t, access)
		we, they := driverOn(t, ours, access), driverOn(t, other, access)
		mine := request("order:1")
		grant := mustAcquire(t, we, mine)
		// The same key in the other lock namespace is another lock.
		same := request("order:1")
		same.Key.Prefix = theirs
		mustAcquire(t, they, same)

		_, err := they.Acquire(t.Context(), request("order:2"))
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonPermission)
		_, err = they.Acquire(t.Context(), request("order:1"))
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonPermission)
		_, err = they.Pass(t.Context(), passTo(mine, request("order:1")))
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonPermission)
		_, err = they.Renew(t.Context(), renew(mine))
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonPermission)
		wantFault(t, they.Release(t.Context(), release(mine)), driver.ErrUnavailable, redislock.ReasonPermission)
		_, err = they.Inspect(t.Context(), mine.Key)
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonPermission)
		_, err = they.Subscribe(t.Context(), mine.Key)
		wantFault(t, err, driver.ErrUnavailable, redislock.ReasonPermission)

		if holding, err := we.Inspect(t.Context(), mine.Key); err != nil || holding.ID != mine.ID || holding.Token != grant.Token {
			t.Errorf("our lock is %+v, %v", holding, err)
		}
		if _, err := they.Subscribe(t.Context(), same.Key); err != nil {
			t.Errorf("subscription to their own channel: %v", err)
		}
	})
}

// A function runs with the caller's rights, also for keys and channels that the caller did not declare.
func TestFunctionsDoNotLendRights(t *testing.T) {
	_, ours, other := startTenants(t, binding.AccessFunctions)
	d := driverOn(t, ours, binding.AccessFunctions)
	mine := request("order:1")
	mustAcquire(t, d, mine)
	ourKey, theirKey := redisproto.LockKey(prefix, "order:1"), redisproto.LockKey(theirs, "order:1")
	ourCounter, theirCounter := redisproto.SequenceKey(prefix), redisproto.SequenceKey(theirs)
	id := newID()
	call := func(function string, keys []string, args ...any) error {
		return other.FCall(t.Context(), function, keys, args...).Err()
	}

	for name, err := range map[string]error{
		"acquire of our key":                call(redisproto.FunctionAcquire, []string{ourKey, ourCounter}, id, 1000, "me"),
		"acquire with our counter":          call(redisproto.FunctionAcquire, []string{theirKey, ourCounter}, id, 1000, "me"),
		"pass of our key":                   call(redisproto.FunctionPass, []string{ourKey, ourCounter}, id, 1000, "me", mine.ID),
		"release of our key":                call(redisproto.FunctionRelease, []string{ourKey}, mine.ID, redisproto.Channel(prefix, "order:1")),
		"renew of our key":                  call(redisproto.FunctionRenew, []string{ourKey, ourCounter}, mine.ID, 1000),
		"arm of their own lock namespace":   call(redisproto.FunctionArm, nil, theirs, fmt.Sprint(epoch.Number)),
		"arm with the operator's key":       call(redisproto.FunctionArm, []string{redisproto.ArmKey(theirs)}, theirs, fmt.Sprint(epoch.Number)),
		"arm with a key of their own":       call(redisproto.FunctionArm, []string{theirKey}, theirs, fmt.Sprint(epoch.Number)),
		"the armed epochs":                  call(redisproto.FunctionArmedEpochs, nil, theirs),
		"the armed epochs of somebody else": call(redisproto.FunctionArmedEpochs, []string{theirKey}, prefix),
	} {
		if !denied(err) {
			t.Errorf("%s: got %v, want it refused for want of a right", name, err)
		}
	}
	// A counter named like one of another lock namespace leads to no other epoch record.
	for name, err := range map[string]error{
		"no counter":                      call(redisproto.FunctionAcquire, []string{theirKey}, id, 1000, "me"),
		"a counter of a longer prefix":    call(redisproto.FunctionAcquire, []string{theirKey, redisproto.LockKey(theirs, "!seq")}, id, 1000, "me"),
		"a key that is no lock":           call(redisproto.FunctionAcquire, []string{theirCounter, theirCounter}, id, 1000, "me"),
		"a lock that is named like it is": call(redisproto.FunctionAcquire, []string{theirKey, redisproto.LockKey(theirs, "x") + "!seq"}, id, 1000, "me"),
	} {
		if err == nil || !strings.Contains(err.Error(), redisproto.CodeBadKeys) {
			t.Errorf("%s: got %v, want %s", name, err, redisproto.CodeBadKeys)
		}
	}
	// A release may name any channel, and publishes only on their own.
	listening := ours.Subscribe(t.Context(), redisproto.Channel(prefix, "order:1"))
	defer func() { _ = listening.Close() }()
	if _, err := listening.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		call(redisproto.FunctionAcquire, []string{theirKey, theirCounter}, id, 600000, "me"),
		call(redisproto.FunctionRelease, []string{theirKey}, id, redisproto.Channel(prefix, "order:1")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Release(t.Context(), release(mine)); err != nil {
		t.Fatal(err)
	}
	// The only message is the one of our own release.
	if _, err := listening.ReceiveMessage(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := listening.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next, err := listening.Receive(t.Context()); err != nil {
		t.Fatal(err)
	} else if _, pong := next.(*redis.Pong); !pong {
		t.Errorf("received %v through a release of somebody else", next)
	}
}
