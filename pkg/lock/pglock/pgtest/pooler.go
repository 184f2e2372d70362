// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/internal/child"
)

// StartPooler puts a PgBouncer before the server, in the mode "session", "transaction" or "statement", and returns its address. It ends with the test. It
// needs the program pgbouncer, and fails the test without it.
func (s *Server) StartPooler(t testing.TB, mode string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		// /usr/sbin is not in the PATH of every user.
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Fatalf("pgtest: install the package pgbouncer: %v", err)
		}
	}
	port, err := child.FreePort()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	dir, err := os.MkdirTemp("", "pgtest-pooler") //nolint:usetesting // Only the user of the test may enter the folder of t.TempDir.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	users, config, log := filepath.Join(dir, "users.txt"), filepath.Join(dir, "pgbouncer.ini"), filepath.Join(dir, "pgbouncer.log")
	files := map[string]string{
		users: fmt.Sprintf("%q %q\n", administrator, s.password),
		config: fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = plain
auth_file = %s
logfile = %s
pool_mode = %s
default_pool_size = 5
server_round_robin = 1
`, s.port, port, users, log, mode),
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{dir, users, config} {
		if err := giveAway(path); err != nil {
			t.Fatal(err)
		}
	}
	process, err := child.Start(command(program, config), syscall.SIGKILL)
	if err != nil {
		t.Fatalf("pgtest: start of pgbouncer: %v", err)
	}
	t.Cleanup(process.Kill)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address); err == nil {
			_ = conn.Close()
			return address
		}
		if !process.Outlives(ctx, 20*time.Millisecond) {
			t.Fatalf("pgtest: pgbouncer does not answer:\n%s", tail(log))
		}
	}
}
