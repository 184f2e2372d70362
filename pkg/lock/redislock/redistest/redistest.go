// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redistest runs a real Redis or Valkey server for a test: on a free port of the loopback address, with a folder and users of its
// own, set up as Lockstead's operator sets one up. The server ends with the test, and with the test binary on Linux.
//
//	server := redistest.Start(t, nil)
//	server.Prepare(t, prefix, redisproto.Epoch{Number: 1, SelfArm: true})
//	client := server.Admin(t)
//
// StartCluster runs a Redis Cluster, and StartReplicated a primary with a replica and sentinels.
//
// It needs redis-server in the PATH, or another server's path in LOCKSTEAD_REDIS_SERVER. LOCKSTEAD_REDIS_SERVERS names several, for the
// tests that use Each or PerServer.
package redistest

import (
	"cmp"
	"context"
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/internal/child"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// Options describe a server. The zero value, or nil, is one that keeps everything it has acknowledged.
type Options struct {
	// Binary is the server, a Program's Path. Defaults to what LOCKSTEAD_REDIS_SERVER says, else to the first of LOCKSTEAD_REDIS_SERVERS, else to
	// redis-server in the PATH.
	Binary string
	// Config are further lines of the configuration file, which win over the usual ones, for example "maxmemory 2mb".
	Config []string
	// Users are in the ACL file that the server boots with, beside the administrator. Defaults to none.
	Users []redisproto.User
	// Certificates is a folder that a Certificate was written to. The server then takes only TLS. Defaults to none: connections in the clear.
	Certificates string

	// password is the administrator's. Defaults to a new one.
	password string
	// cluster says that the server is a node of a cluster.
	cluster bool
	// sentinel says that the server keeps no data, and watches others.
	sentinel bool
}

// patience is far longer than a healthy server takes for anything that is waited for here.
const patience = 30 * time.Second

const (
	adminName  = "admin"
	configFile = "redis.conf"
)

// Server is a running server, or one that was killed and can be started again on the same address with the same data.
type Server struct {
	binary   string
	dir      string
	cluster  bool
	sentinel bool
	port     int
	// busPort is that of the other nodes of the cluster.
	busPort  int
	password string
	process  *child.Process
	// certificates is Options.Certificates.
	certificates string
}

// Start starts a server that ends with the test. It fails the test if there is no server to start.
func Start(t testing.TB, opts *Options) *Server {
	t.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	s := &Server{binary: Binary(t, o.Binary), dir: t.TempDir(), cluster: o.cluster, sentinel: o.sentinel, password: cmp.Or(o.password, rand.Text()), certificates: o.Certificates}
	for name, lines := range s.files(t, o) {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(lines), 0o600); err != nil {
			t.Fatalf("redistest: %v", err)
		}
	}
	t.Cleanup(func() {
		s.Kill(t)
		if t.Failed() {
			t.Logf("end of the log of the server on %s:\n%s", s.Addr(), s.logTail())
		}
	})
	s.Run(t)
	return s
}

// files are the configuration of the server.
func (s *Server) files(t testing.TB, o Options) map[string]string {
	t.Helper()
	common := []string{"bind 127.0.0.1", "dir " + s.dir, "logfile " + s.logFile(), "daemonize no"}
	if o.sentinel {
		return map[string]string{configFile: strings.Join(append(common, o.Config...), "\n") + "\n"}
	}
	users := append([]redisproto.User{{
		Name: adminName, PasswordHashes: []string{redisproto.PasswordHash(s.password)}, Rules: redisproto.OperatorRules(),
	}}, o.Users...)
	acl, err := redisproto.ACLFile(users)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	config := append(common,
		"aclfile "+filepath.Join(s.dir, "users.acl"), "save \"\"", "appendonly yes", "appendfsync always", "maxmemory-policy noeviction",
	)
	if dir := o.Certificates; dir != "" {
		config = append(config, "tls-cert-file "+filepath.Join(dir, certificateFile), "tls-key-file "+filepath.Join(dir, keyFile),
			"tls-ca-cert-file "+filepath.Join(dir, authorityFile), "tls-auth-clients no")
	}
	if o.cluster {
		config = append(config, "cluster-enabled yes", "cluster-node-timeout 2000")
	}
	return map[string]string{"users.acl": acl, configFile: strings.Join(append(config, o.Config...), "\n") + "\n"}
}

// Binary is the path of the server that Start runs for an Options.Binary; "" is the default.
func Binary(t testing.TB, wanted string) string {
	t.Helper()
	list, err := programs(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	name := cmp.Or(wanted, list[0].Path)
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("redistest: no %s: run \"make test\", which brings its own, install the package redis-server, or name a server in %s: %v", name, BinaryVariable, err)
	}
	return path
}

// Addr is host and port of the server; they stay the same over a restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Run starts the server again after Kill or Stop, and returns when it has loaded its data.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	const tries = 10
	for range tries {
		if s.port == 0 {
			s.port, s.busPort = freePort(t), freePort(t)
		}
		args := []string{filepath.Join(s.dir, configFile), "--port", strconv.Itoa(s.port)}
		if s.certificates != "" {
			args = []string{filepath.Join(s.dir, configFile), "--port", "0", "--tls-port", strconv.Itoa(s.port)}
		}
		if s.cluster {
			args = append(args, "--cluster-port", strconv.Itoa(s.busPort))
		}
		if s.sentinel {
			args = append(args, "--sentinel")
		}
		var err error
		if s.process, err = child.Start(exec.Command(s.binary, args...), syscall.SIGKILL); err != nil {
			t.Fatalf("redistest: start of %s: %v", s.binary, err)
		}
		if s.awaitReady(t) {
			return
		}
		if !strings.Contains(s.logTail(), "Address already in use") {
			break
		}
		s.port = 0
	}
	t.Fatalf("redistest: %s did not start:\n%s", s.binary, s.logTail())
}

// awaitReady reports whether the server answers; false when it ended or time ran out.
func (s *Server) awaitReady(t testing.TB) bool {
	t.Helper()
	client := s.newClient(adminName, s.password)
	if s.sentinel {
		client = s.newClient("", "")
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		// The client writes a line to the standard error for each dial that fails, so it is asked once there is something to dial.
		if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr()); err == nil {
			_ = conn.Close()
			if client.Ping(ctx).Err() == nil {
				return true
			}
		}
		if !s.process.Outlives(ctx, 10*time.Millisecond) {
			return false
		}
	}
}

// Kill ends the server as a power cut ends it, by SIGKILL. What it had acknowledged is in its file.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if s.process != nil {
		s.process.Kill()
	}
}

// Stop ends the server in good order.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.process.End(syscall.SIGTERM, patience); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}

// Freeze stops the server's process without ending it: connections stay open, and nothing answers. The function that it returns lets it go on.
func (s *Server) Freeze(t testing.TB) (thaw func()) {
	t.Helper()
	thaw, err := s.process.Freeze()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(thaw)
	return thaw
}

// Admin is a client with every right, closed with the test.
func (s *Server) Admin(t testing.TB) *redis.Client {
	t.Helper()
	return s.Client(t, adminName, s.password)
}

// AdminPassword is the password of the user "admin", for a client that the test makes itself.
func (s *Server) AdminPassword() string { return s.password }

// Client is a client of one of the server's users, closed with the test.
func (s *Server) Client(t testing.TB, user, password string) *redis.Client {
	t.Helper()
	client := s.newClient(user, password)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (s *Server) newClient(user, password string) *redis.Client {
	return redis.NewClient(s.ClientOptions(user, password))
}

// Prepare makes the server ready for a lock namespace, as the operator does: the function library if it has none, and the epoch record.
func (s *Server) Prepare(t testing.TB, prefix string, epoch redisproto.Epoch) {
	t.Helper()
	s.loadLibrary(t)
	client := s.newClient(adminName, s.password)
	defer func() { _ = client.Close() }()
	if err := client.Set(t.Context(), redisproto.EpochKey(prefix), epoch.String(), 0).Err(); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}

// loadLibrary loads the function library if the server has none.
func (s *Server) loadLibrary(t testing.TB) {
	t.Helper()
	client := s.newClient(adminName, s.password)
	defer func() { _ = client.Close() }()
	libraries, err := client.FunctionList(t.Context(), redis.FunctionListQuery{LibraryNamePattern: redisproto.LibraryName}).Result()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	if len(libraries) == 0 {
		if err := client.FunctionLoad(t.Context(), redisproto.Library()).Err(); err != nil {
			t.Fatalf("redistest: %v", err)
		}
	}
}

// PreloadScripts makes the server ready for users that may run scripts but not load them.
func (s *Server) PreloadScripts(t testing.TB) {
	t.Helper()
	client := s.newClient(adminName, s.password)
	defer func() { _ = client.Close() }()
	scripts := append(redisproto.HolderScripts(), redisproto.GrantScripts()...)
	for _, script := range append(scripts, redisproto.AcquireScript(), redisproto.PassScript()) {
		if err := client.ScriptLoad(t.Context(), script.Source).Err(); err != nil {
			t.Fatalf("redistest: %v", err)
		}
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := child.FreePort()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return port
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }

func (s *Server) logTail() string {
	const lines = 40
	raw, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
