// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/lockstead/lockstead/internal/redisadmin"
)

// server is a real redis-server that a test may kill.
type server struct {
	t       *testing.T
	dir     string
	address string
	config  []string
	command *exec.Cmd
	log     bytes.Buffer
}

func startServer(t *testing.T, config ...string) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().(*net.TCPAddr)
	_ = listener.Close()
	s := &server{t: t, dir: t.TempDir(), address: address.String(), config: append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(address.Port), "--save", "",
	}, config...)}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) start() {
	s.t.Helper()
	s.command = exec.Command("redis-server", append(s.config, "--dir", s.dir)...)
	s.command.Stdout, s.command.Stderr = &s.log, &s.log
	if err := s.command.Start(); err != nil {
		s.t.Fatalf("start redis-server (apt-get install redis-server): %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if conn, err := net.Dial("tcp", s.address); err == nil {
			_ = conn.Close()
			if client, err := redisadmin.NewConnector(nil).Connect(s.t.Context(), s.target()); err == nil {
				client.Close()
				return
			}
		}
	}
	s.kill()
	s.t.Fatalf("redis-server did not become ready:\n%s", s.log.String())
}

func (s *server) kill() {
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
}

func (s *server) restart(loseData bool) {
	s.t.Helper()
	s.kill()
	if loseData {
		if err := os.RemoveAll(filepath.Join(s.dir, "appendonlydir")); err != nil {
			s.t.Fatal(err)
		}
	}
	s.start()
}

func (s *server) target() redisadmin.Target { return redisadmin.Target{Address: s.address} }

func (s *server) connect() *redisadmin.Client {
	s.t.Helper()
	client, err := redisadmin.NewConnector(nil).Connect(context.Background(), s.target())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.Close)
	return client
}
