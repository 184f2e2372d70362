// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// server is a real server that is administered.
type server struct {
	*redistest.Server
	t *testing.T
}

func startServer(t *testing.T, config ...string) *server {
	t.Helper()
	return &server{Server: redistest.Start(t, &redistest.Options{Config: config}), t: t}
}

func (s *server) restart() {
	s.t.Helper()
	s.Kill(s.t)
	s.Run(s.t)
}

func (s *server) target() redisadmin.Target {
	return redisadmin.Target{Address: s.Addr(), Username: "admin", Password: s.AdminPassword()}
}

func (s *server) connect() *redisadmin.Client {
	s.t.Helper()
	client, err := redisadmin.NewConnector(nil).Connect(s.t.Context(), s.target())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.Close)
	return client
}

// raw is a client for what the tests do behind the operator's back.
func (s *server) raw() *redis.Client { return s.Admin(s.t) }
