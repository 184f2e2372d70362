// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// FromBinding makes a driver with a client of its own for the server that the binding names. It does not connect: a server that is down shows at the
// first request. Access, MaxTTL and Operated are the binding's. Use the binding's Prefix with lock.New.
//
// The driver has up to 16 connections for requests, 4 for renewals, so that locks that are held are renewed however many goroutines ask for
// others, and one for notifications. They are made when they are needed, and closed after 5 minutes without use.
//
// Rotated passwords and certificates are used from the next connection on, when Options.Reload or Update tell of them; connections that
// are open stay, since the server keeps them. A connection that is refused for its password, or does not trust the server's certificate, is tried
// once more with the binding as it is then, within the time of the request.
//
// The error is a *driver.OptionError; it has no password in it.
func FromBinding(b *binding.Binding, opts *Options) (*Driver, error) {
	if b.Type != binding.TypeRedis {
		return nil, badOption("binding", fmt.Sprintf("is the %s: give one of a Redis server", b))
	}
	if err := b.Validate(); err != nil {
		return nil, &driver.OptionError{Package: "redislock", Option: "binding", Problem: fmt.Sprintf("is the %s", b), Err: err}
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Access, o.MaxTTL, o.Operated = b.Redis.Access, b.TTLMax, true
	o, err := o.resolve()
	if err != nil {
		return nil, err
	}
	s := &source{opened: b, reload: o.Reload, current: b, timeout: o.AttemptTimeout}
	client := redis.NewClient(s.clientOptions())
	return &Driver{client: client, options: o, operations: newOperations(o.Operated), listener: newListener(client, o), source: s, unlisted: unlisted{clock: o.Clock}}, nil
}

// Update tells a driver of FromBinding that the binding has changed. If it names another backend, all calls fail with
// driver.ErrBackendChanged from then on. A driver of New has no binding, and ignores it.
func (d *Driver) Update(b *binding.Binding) {
	if d.source != nil {
		_ = d.source.update(b)
	}
}

// source is where connections of a driver's own client lead to.
type source struct {
	opened  *binding.Binding
	reload  func() (*binding.Binding, error)
	timeout time.Duration

	mu      sync.Mutex
	current *binding.Binding
	changed error
}

const (
	// poolSize is the number of requests that are under way at a time; further ones wait for a connection. go-redis's default grows with the
	// CPUs, and is ten in a small pod; a lock request takes little of a CPU, and servers that write each one to disk serve 16 at
	// about the speed of one.
	poolSize = 16
	// renewalPoolSize is the number of renewal batches, beside the others. Renewals go over pipelines, which have connections of their own (by
	// default ten), so that they do not wait behind the acquires of a busy application. Unused ones cost nothing.
	renewalPoolSize = 4
)

// clientOptions are those of a client that sends every request once: an acquire whose answer was lost must not be sent again. A tenant has the right to
// nothing beside the handshake and the lock protocol. What differs from go-redis's defaults (v9.23):
//
//   - MaxRetries -1 (3) and DialerRetries 1 (5): the lock client decides what is sent again, and knows for how long.
//   - PoolSize and PipelinePoolSize: see the constants.
//   - DialTimeout, ReadTimeout, WriteTimeout and PoolTimeout are Options.AttemptTimeout (5 s, 5 s, 5 s and 6 s), the bound of a whole request: each part
//     may use up what is left of it. ContextTimeoutEnabled (off) makes connections heed the end of the request.
//   - ConnMaxIdleTime 5 min (30 min): load balancers and NAT drop idle connections in silence after 5 to 10 minutes. ConnMaxLifetime stays none: the
//     server keeps a connection over a rotation.
//   - Protocol 2 (3), no CLIENT SETINFO and no maintenance notifications: what tenants have no right to, and the lock protocol no use for.
func (s *source) clientOptions() *redis.Options {
	return &redis.Options{
		Addr:                       s.opened.Redis.Address(),
		Dialer:                     s.dial,
		CredentialsProviderContext: s.credentials,
		Protocol:                   2,
		MaxRetries:                 -1,
		DialerRetries:              1,
		DialTimeout:                s.timeout,
		ReadTimeout:                s.timeout,
		WriteTimeout:               s.timeout,
		PoolSize:                   poolSize,
		PoolTimeout:                s.timeout,
		PipelinePoolSize:           renewalPoolSize,
		ContextTimeoutEnabled:      true,
		ConnMaxIdleTime:            5 * time.Minute,
		DisableIdentity:            true,
		MaintNotificationsConfig:   &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func (s *source) access() binding.Access {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Redis.Access
}

func (s *source) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *source) update(b *binding.Binding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		return s.changed
	}
	if !s.opened.SameBackend(b) {
		s.changed = fmt.Errorf("%w: it opened the %s, and now there is the %s: restart the process", driver.ErrBackendChanged, s.opened, b)
		return s.changed
	}
	s.current = b
	return nil
}

// latest is the binding to connect with. One that cannot be read at present is no reason not to try the one from before.
func (s *source) latest() (*binding.Binding, error) {
	if s.reload != nil {
		if b, err := s.reload(); err == nil {
			if err := s.update(b); err != nil {
				return nil, err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.changed
}

// credentials is called after dial for the same connection.
func (s *source) credentials(context.Context) (username, password string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Redis.Username, s.current.Redis.Password, s.changed
}

// rotated reports whether a request was refused for a password that may have been replaced since the binding was read: it is worth one more try,
// for which the connection reads the binding again. Nothing was applied.
func (d *Driver) rotated(err error) bool {
	return d.source != nil && (redis.HasErrorPrefix(err, "WRONGPASS") || redis.HasErrorPrefix(err, "NOAUTH"))
}

func (s *source) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	b, err := s.latest()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conn, err := connect(ctx, b)
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); !untrusted {
		return conn, err
	}
	// The server's certificate may have been replaced since the binding was read.
	now, latestErr := s.latest()
	if latestErr != nil || bytes.Equal(now.Redis.CA, b.Redis.CA) {
		return nil, err
	}
	return connect(ctx, now)
}
