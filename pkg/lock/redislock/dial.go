// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
)

// connect makes a connection to the server of a binding.
func connect(ctx context.Context, b *binding.Binding) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	conn, err := dialer.DialContext(ctx, "tcp", b.Redis.Address())
	if err != nil {
		return nil, err
	}
	if !b.Redis.TLS {
		if tcp, ok := conn.(*net.TCPConn); ok {
			return &greetedConn{TCPConn: tcp}, nil
		}
		return conn, nil
	}
	config, err := tlsConfig(b.Redis)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", b.Redis.Address(), err)
	}
	raw, ok := conn.(syscall.Conn)
	if !ok {
		return secured, nil
	}
	return watchedConn{secured, raw}, nil
}

// watchedConn is a connection with TLS whose socket the pool can look at before it uses the connection again, as it does in the clear: one that the
// server has ended since costs a new connection, and not a request of which nobody knows whether it was applied. go-redis leaves TLS
// connections unchecked since they may have records of the protocol's third version to read; this client speaks the second.
type watchedConn struct {
	*tls.Conn
	raw syscall.Conn
}

// SyscallConn implements syscall.Conn.
func (c watchedConn) SyscallConn() (syscall.RawConn, error) { return c.raw.SyscallConn() }

// greetedConn is a connection without TLS to a server that may refuse it in words and hang up at once. go-redis takes such words for an answer to
// the first request of its handshake, sends the next one, and tells only that the connection broke.
type greetedConn struct {
	*net.TCPConn
	// greeted says that the server has sent something. Reads are one after another.
	greeted bool
}

// hangUp is what a server said when it refused a connection.
type hangUp struct{ text string }

func (h *hangUp) Error() string { return h.text }

// Read implements net.Conn.
func (c *greetedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if c.greeted || n == 0 {
		return n, err
	}
	c.greeted = true
	words, _, _ := strings.Cut(string(p[:n]), "\r\n")
	for _, start := range []string{tooManyClients, protectedMode} {
		if text, refused := strings.CutPrefix(words, "-"); refused && strings.HasPrefix(text, start) {
			return 0, &hangUp{text}
		}
	}
	return n, err
}

func tlsConfig(r *binding.Redis) (*tls.Config, error) {
	config := &tls.Config{ServerName: r.Host, MinVersion: tls.VersionTLS12}
	if len(r.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(r.CA) {
			return nil, fmt.Errorf("entry %q of the binding contains no certificate in PEM form", binding.KeyCA)
		}
	}
	return config, nil
}
