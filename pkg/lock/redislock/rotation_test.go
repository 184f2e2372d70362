// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// mount is the binding as the kubelet shows it to the pod.
type mount struct {
	mu      sync.Mutex
	binding *binding.Binding
	// onRead runs after a read, before the reader goes on with what it has read.
	onRead func()
}

func (m *mount) set(b *binding.Binding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.binding = b
}

func (m *mount) read() (*binding.Binding, error) {
	m.mu.Lock()
	b, onRead := m.binding, m.onRead
	m.onRead = nil
	m.mu.Unlock()
	if onRead != nil {
		onRead()
	}
	return b, nil
}

func (m *mount) open(t *testing.T) *redislock.Driver {
	t.Helper()
	d, err := redislock.FromBinding(m.binding, &redislock.Options{Reload: m.read})
	if err != nil {
		t.Fatal(err)
	}
	closeWithTest(t, d)
	return d
}

// load is an application that takes, renews and gives up locks all the time, and none of that may fail.
type load struct {
	t     *testing.T
	admin *redis.Client
	// busy is held for reading by a round, so that no connection is cut under a request, which nobody could save.
	busy   sync.RWMutex
	rounds atomic.Int64
	stop   chan struct{}
	work   sync.WaitGroup
}

func startLoad(t *testing.T, d *redislock.Driver, admin *redis.Client) *load {
	l := &load{t: t, admin: admin, stop: make(chan struct{})}
	for i := range 8 {
		l.work.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
					l.round(d, fmt.Sprint("load:", i))
				}
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) round(d *redislock.Driver, key string) {
	l.busy.RLock()
	defer l.busy.RUnlock()
	req := request(key)
	if _, err := d.Acquire(l.t.Context(), req); err != nil {
		l.t.Errorf("acquire: %v", err)
		return
	}
	for _, outcome := range d.RenewBatch(l.t.Context(), []driver.RenewRequest{renew(req)}) {
		if outcome.Err != nil {
			l.t.Errorf("renew: %v", outcome.Err)
		}
	}
	if err := d.Release(l.t.Context(), release(req)); err != nil {
		l.t.Errorf("release: %v", err)
	}
	l.rounds.Add(1)
}

// reconnects cuts all connections of the tenant, again and again, each time after some rounds on the new ones.
func (l *load) reconnects(times int) {
	l.t.Helper()
	for range times {
		l.busy.Lock()
		err := l.admin.Do(l.t.Context(), "client", "kill", "user", tenantName).Err()
		l.busy.Unlock()
		if err != nil {
			l.t.Fatal(err)
		}
		before := l.rounds.Load()
		eventually(l.t, "rounds on new connections", func() bool { return l.t.Failed() || l.rounds.Load() >= before+16 })
		if l.t.Failed() {
			l.t.FailNow()
		}
	}
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.work.Wait()
}

// setPasswords makes these the passwords of the tenant, and leaves its connections alone.
func setPasswords(t *testing.T, admin *redis.Client, passwords ...string) {
	t.Helper()
	user := tenantUser("lk:{test/*}:", binding.AccessFunctions)
	user.PasswordHashes = nil
	for _, password := range passwords {
		user.PasswordHashes = append(user.PasswordHashes, redisproto.PasswordHash(password))
	}
	args, err := user.SetUserArgs()
	if err != nil {
		t.Fatal(err)
	}
	command := []any{"acl", "setuser"}
	for _, arg := range args {
		command = append(command, arg)
	}
	if err := admin.Do(t.Context(), command...).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestPasswordRotationUnderLoadFailsNothing(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	admin := server.Admin(t)
	first := tenantBinding(t, server.Addr(), binding.AccessFunctions)
	m := &mount{binding: first}
	l := startLoad(t, m.open(t), admin)
	old := tenantPassword
	for i := range 3 {
		next := fmt.Sprint("password ", i)
		l.reconnects(2)
		setPasswords(t, admin, old, next)
		l.reconnects(2)
		m.set(withPassword(first, next))
		l.reconnects(2)
		setPasswords(t, admin, next)
		l.reconnects(2)
		old = next
	}
	l.end()
	t.Logf("%d rounds", l.rounds.Load())
}

// The old password is gone just after a connection has read it, before it is used: the same request reads again and succeeds.
func TestAPasswordThatIsReplacedDuringTheHandshake(t *testing.T) {
	for name, request := range map[string]func(d *redislock.Driver, held driver.AcquireRequest) error{
		"acquire": func(d *redislock.Driver, _ driver.AcquireRequest) error {
			_, err := d.Acquire(t.Context(), request("order:2"))
			return err
		},
		"renew": func(d *redislock.Driver, held driver.AcquireRequest) error {
			_, err := d.Renew(t.Context(), renew(held))
			return err
		},
		"release": func(d *redislock.Driver, held driver.AcquireRequest) error {
			return d.Release(t.Context(), release(held))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t, binding.AccessFunctions)
			admin := server.Admin(t)
			first := tenantBinding(t, server.Addr(), binding.AccessFunctions)
			m := &mount{binding: first}
			d := m.open(t)
			held := mustHold(t, d)
			rotate(t, admin, tenantPassword) // The connections are gone, the password is the same.
			replaced := false
			m.onRead = func() {
				replaced = true
				setPasswords(t, admin, "next")
				m.set(withPassword(first, "next"))
			}
			if err := request(d, held); err != nil {
				t.Error(err)
			}
			if !replaced {
				t.Error("no new connection was made")
			}
		})
	}
}

func mustHold(t *testing.T, d *redislock.Driver) driver.AcquireRequest {
	t.Helper()
	held := request("held")
	mustAcquire(t, d, held)
	return held
}

// secureServer is a server with TLS.
type secureServer struct {
	*redistest.Server
	secure string
}

func TestCertificateRotationUnderLoadFailsNothing(t *testing.T) {
	server, serve := startSecure(t)
	admin := server.Admin(t)
	trust := func(ca []byte) *binding.Binding {
		b := tenantBinding(t, server.secure, binding.AccessFunctions)
		b.Redis.TLS, b.Redis.CA = true, ca
		return b
	}
	old := newAuthority(t)
	serve(old)
	m := &mount{binding: trust(old.pem)}
	l := startLoad(t, m.open(t), admin)
	for range 2 {
		next := newAuthority(t)
		l.reconnects(2)
		// Another certificate of the same authority, as it is renewed before it runs out.
		serve(old)
		l.reconnects(2)
		m.set(trust(slices.Concat(old.pem, next.pem)))
		l.reconnects(2)
		serve(next)
		l.reconnects(2)
		m.set(trust(next.pem))
		l.reconnects(2)
		old = next
	}
	l.end()
	t.Logf("%d rounds", l.rounds.Load())
}

// The authority is replaced just after a connection has read the old one, without a time in which both are trusted.
func TestAnAuthorityThatIsReplacedDuringTheHandshake(t *testing.T) {
	server, serve := startSecure(t)
	old, next := newAuthority(t), newAuthority(t)
	trust := func(ca []byte) *binding.Binding {
		b := tenantBinding(t, server.secure, binding.AccessFunctions)
		b.Redis.TLS, b.Redis.CA = true, ca
		return b
	}
	serve(old)
	m := &mount{binding: trust(old.pem)}
	d := m.open(t)
	m.onRead = func() {
		serve(next)
		m.set(trust(next.pem))
	}
	mustAcquire(t, d, request("order:1"))
	// Without a new one in the binding it is refused.
	serve(old)
	if err := server.Admin(t).Do(t.Context(), "client", "kill", "user", tenantName).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := d.Acquire(t.Context(), request("order:2"))
	wantFault(t, err, driver.ErrUnavailable, redislock.ReasonConnect)
}
