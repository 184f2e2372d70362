// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.PerServer(m)) }

func TestServerKeepsAddressAndDataOverARestart(t *testing.T) {
	server := redistest.Start(t, nil)
	address := server.Addr()
	admin := server.Admin(t)
	if err := admin.Set(t.Context(), "a", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill(t)
	if err := admin.Ping(t.Context()).Err(); err == nil {
		t.Fatal("a killed server answers")
	}
	server.Run(t)
	if got, err := server.Admin(t).Get(t.Context(), "a").Result(); err != nil || got != "1" || server.Addr() != address {
		t.Errorf("after the restart on %s got %q, %v", server.Addr(), got, err)
	}
	server.Stop(t)
	server.RemoveData(t)
	server.Run(t)
	if _, err := server.Admin(t).Get(t.Context(), "a").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("after the loss of the data: %v", err)
	}
}

func TestServersAreApartAndClosedToStrangers(t *testing.T) {
	a, b := redistest.Start(t, nil), redistest.Start(t, &redistest.Options{Config: []string{"maxmemory 10mb"}, Users: []redisproto.User{
		{Name: "probe", PasswordHashes: []string{redisproto.PasswordHash("x")}, Rules: redisproto.ProbeRules()},
	}})
	if a.Addr() == b.Addr() {
		t.Fatalf("both servers are on %s", a.Addr())
	}
	if got := b.Admin(t).ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"]; got != "10485760" {
		t.Errorf("maxmemory is %q", got)
	}
	if err := b.Client(t, "probe", "x").Ping(t.Context()).Err(); err != nil {
		t.Errorf("ping of the probe: %v", err)
	}
	for _, user := range [][2]string{{"probe", "y"}, {"default", ""}, {"", ""}} {
		if err := b.Client(t, user[0], user[1]).Ping(t.Context()).Err(); err == nil {
			t.Errorf("user %q with password %q was let in", user[0], user[1])
		}
	}
}
