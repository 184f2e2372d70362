// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pgtest runs a real PostgreSQL server for tests: on a free port of the loopback address, with a data folder and a password of its
// own. The server ends with the test, or with the tests of the package, and on Linux with the test binary however that ends.
//
// The tests of a package share one server, and each test has a database of its own:
//
//	var server *pgtest.Server
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Shared(m, &server).Run()) }
//
//	func TestSomething(t *testing.T) { url := server.Database(t) … }
//
// A test that stops or kills its server starts one for itself by Start. StartPooler puts a PgBouncer before a server.
//
// It needs the programs of a PostgreSQL in the folder that LOCKSTEAD_POSTGRES names, or in the one that hack/postgres.sh finds or installs. A test fails
// when there are none. As root the server runs as the user nobody, since PostgreSQL refuses to run as root.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/internal/child"
)

// patience is far longer than a healthy server takes for anything that is waited for here.
const patience = 60 * time.Second

const administrator = "postgres"

// Options describe a server. The zero value, or nil, is ready to use.
type Options struct {
	// Config are lines of postgresql.conf that win over the usual ones, for example "max_connections = 10".
	Config []string
	// CrashSafe says that the server writes to the disk what it has acknowledged. Defaults to false, which is quicker.
	CrashSafe bool
}

// Server is a running server, or one that was stopped and can be started again on the same address with the same data.
type Server struct {
	bin      string
	dir      string
	port     int
	password string
	process  *child.Process
}

// Start starts a server that ends with the test, or fails the test.
func Start(t testing.TB, options *Options) *Server {
	t.Helper()
	s, err := start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the log of the server on %s:\n%s", s.Addr(), s.logTail())
		}
		s.remove()
	})
	return s
}

// Shared is for TestMain: its Run starts a server for all tests of the package, sets *server to it, runs the tests and ends the server.
func Shared(m *testing.M, server **Server) interface{ Run() int } { return shared{m, server} }

type shared struct {
	tests  *testing.M
	server **Server
}

// Run implements what TestMain and goleak need.
func (r shared) Run() int {
	s, err := start(nil)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.remove()
	*r.server = s
	return r.tests.Run()
}

func start(options *Options) (_ *Server, err error) {
	var o Options
	if options != nil {
		o = *options
	}
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	s := &Server{bin: bin, dir: dir, password: rand.Text()}
	defer func() {
		if err != nil {
			s.remove()
		}
	}()
	if err := s.create(o); err != nil {
		return nil, err
	}
	return s, s.run()
}

// create makes the data folder.
func (s *Server) create(o Options) error {
	passwordFile := filepath.Join(s.dir, "password")
	if err := os.WriteFile(passwordFile, []byte(s.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	for _, path := range []string{s.dir, passwordFile} {
		if err := giveAway(path); err != nil {
			return err
		}
	}
	initdb := command(filepath.Join(s.bin, "initdb"), "--pgdata", s.data(), "--username", administrator, "--pwfile", passwordFile,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	initdb.Dir = s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("pgtest: initdb: %w\n%s", err, out)
	}
	config := append([]string{
		"listen_addresses = '127.0.0.1'", "unix_socket_directories = ''", "max_connections = 200", "shared_buffers = 32MB",
		"logging_collector = off", "log_min_messages = warning", "autovacuum = off", "max_wal_size = 128MB", "min_wal_size = 32MB",
	}, o.Config...)
	if !o.CrashSafe {
		config = append([]string{"fsync = off", "full_page_writes = off"}, config...)
	}
	file, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	_, err = file.WriteString("\n" + strings.Join(config, "\n") + "\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	return nil
}

// run starts the server and returns when it answers.
func (s *Server) run() error {
	const tries = 10
	for range tries {
		if s.port == 0 {
			port, err := child.FreePort()
			if err != nil {
				return fmt.Errorf("pgtest: %w", err)
			}
			s.port = port
		}
		cmd := command(filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.port))
		log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("pgtest: %w", err)
		}
		cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
		// SIGQUIT ends the whole server at once; SIGKILL would leave its children behind for a moment, and shared memory for ever.
		s.process, err = child.Start(cmd, syscall.SIGQUIT)
		_ = log.Close()
		if err != nil {
			return fmt.Errorf("pgtest: start of the server: %w", err)
		}
		if s.awaitReady() {
			return nil
		}
		if !strings.Contains(s.logTail(), "Address already in use") {
			break
		}
		s.port = 0
	}
	return fmt.Errorf("pgtest: PostgreSQL did not start:\n%s", s.logTail())
}

// awaitReady reports whether the server answers; false when it ended or time ran out.
func (s *Server) awaitReady() bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			_ = conn.Close(ctx)
			return true
		}
		if !s.process.Outlives(ctx, 20*time.Millisecond) {
			return false
		}
	}
}

// Addr is host and port of the server; they stay the same over a restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the connection string of the administrator for a database, with the password in it.
func (s *Server) URL(database string) string { return s.urlAt(s.Addr(), database) }

// Password is the administrator's.
func (s *Server) Password() string { return s.password }

func (s *Server) urlAt(address, database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(administrator, s.password), Host: address, Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// At is a connection string with another address, for example that of a proxy before the server.
func At(t testing.TB, connString, address string) string {
	t.Helper()
	u, err := url.Parse(connString)
	if err != nil {
		t.Fatal("pgtest: the connection string is no URL")
	}
	u.Host = address
	return u.String()
}

// Database makes a fresh database, which is dropped with the test whoever is connected to it, and returns its connection string.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	s.Exec(t, "postgres", "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if s.process.Ended() {
			return
		}
		s.Exec(t, "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	})
	return s.URL(name)
}

// Exec runs a statement as the administrator.
func (s *Server) Exec(t testing.TB, database, statement string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement, args...); err != nil {
		t.Fatalf("pgtest: %s: %v", statement, err)
	}
}

// Kill ends the server as a crash ends it: nothing is written any more, and the next start recovers from the log.
func (s *Server) Kill(t testing.TB) { s.end(t, syscall.SIGQUIT) }

// Stop ends the server in good order; sessions are told.
func (s *Server) Stop(t testing.TB) { s.end(t, syscall.SIGINT) }

// Run starts the server again after Kill or Stop, and returns when it answers.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// RunAsStandby starts the server after Kill or Stop in recovery, as a standby whose primary is gone: it can be read, and promoted by pg_promote().
func (s *Server) RunAsStandby(t testing.TB) {
	t.Helper()
	signal := filepath.Join(s.data(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := giveAway(signal); err != nil {
		t.Fatal(err)
	}
	s.Run(t)
}

func (s *Server) end(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.process.End(signal, patience); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

// remove ends the server and takes its folder away.
func (s *Server) remove() {
	if s.process != nil && !s.process.Ended() {
		if err := s.process.End(syscall.SIGQUIT, patience); err != nil {
			s.process.Kill()
		}
	}
	_ = os.RemoveAll(s.dir)
}

func (s *Server) data() string    { return filepath.Join(s.dir, "data") }
func (s *Server) logFile() string { return filepath.Join(s.dir, "postgres.log") }

func (s *Server) logTail() string { return tail(s.logFile()) }

func tail(path string) string {
	const most = 4000
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// command is a program as the user that may run it.
func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = unprivileged()
	return cmd
}
