// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redisadmin is what the operator does on a Redis server as its administrator: it looks what the server is and how safe it keeps
// locks, loads the function library, programs the users of tenants, and writes and arms their epochs.
//
// Every operation compares first and writes only a difference, so it can be repeated at any time. No error and no result carries a
// password.
package redisadmin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Target is a server and how to log in as its administrator. Formatting it leaves the password out.
type Target struct {
	// Address is host:port.
	Address  string
	Username string
	Password string
	// TLS is nil for a connection in the clear.
	TLS *tls.Config
}

// String names the server and the user without the password.
func (t Target) String() string { return t.Username + "@" + t.Address }

// Format writes String for every verb, so that none of them shows the password.
func (t Target) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, t.String()) }

// Options change how a Connector connects. The zero value is good.
type Options struct {
	// Dial opens connections, for example to reach a Service from outside of the cluster. Defaults to a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Timeout bounds a dial, and the wait for a reply. Defaults to 3 seconds.
	Timeout time.Duration
}

// Connector opens clients.
type Connector struct{ options Options }

// NewConnector returns a Connector. A nil options is the zero value.
func NewConnector(options *Options) *Connector {
	c := &Connector{}
	if options != nil {
		c.options = *options
	}
	if c.options.Timeout == 0 {
		c.options.Timeout = 3 * time.Second
	}
	if c.options.Dial == nil {
		c.options.Dial = (&net.Dialer{Timeout: c.options.Timeout}).DialContext
	}
	return c
}

// Client is a connection to one server. Its user closes it.
type Client struct {
	redis *redis.Client
	// certificate is the one that the server showed last.
	certificate atomic.Pointer[x509.Certificate]
}

// Connect opens a client and checks that the server answers to the credentials.
func (c *Connector) Connect(ctx context.Context, target Target) (*Client, error) {
	client := &Client{}
	dial := c.options.Dial
	if target.TLS != nil {
		config := target.TLS.Clone()
		if config.ServerName == "" {
			host, _, err := net.SplitHostPort(target.Address)
			if err != nil {
				return nil, fmt.Errorf("address of the server: %w", err)
			}
			config.ServerName = host
		}
		plain := dial
		dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := plain(ctx, network, address)
			if err != nil {
				return nil, err
			}
			secured := tls.Client(conn, config)
			if err := secured.HandshakeContext(ctx); err != nil {
				_ = conn.Close()
				return nil, fmt.Errorf("TLS handshake: %w", err)
			}
			client.certificate.Store(secured.ConnectionState().PeerCertificates[0])
			return secured, nil
		}
	}
	client.redis = redis.NewClient(&redis.Options{
		Addr: target.Address, Username: target.Username, Password: target.Password, ClientName: "lockstead-operator",
		Dialer: dial, DialTimeout: c.options.Timeout, DialerRetries: 1, ReadTimeout: c.options.Timeout, WriteTimeout: c.options.Timeout,
		ContextTimeoutEnabled: true, PoolSize: 2, MaxRetries: -1, Protocol: 2, DisableIdentity: true,
	})
	// A server that cannot write its file refuses even PING. It can be looked at all the same.
	if err := client.redis.Ping(ctx).Err(); err != nil && !strings.HasPrefix(err.Error(), "MISCONF") {
		client.Close()
		return nil, connectError(target, err)
	}
	return client, nil
}

// Certificate is the one that the server showed on the newest connection; nil for one in the clear.
func (c *Client) Certificate() *x509.Certificate { return c.certificate.Load() }

// Close closes the connections.
func (c *Client) Close() { _ = c.redis.Close() }

// The reasons why a server cannot be administered.
var (
	// ErrUnreachable: no connection, or no reply.
	ErrUnreachable = errors.New("server is not reachable")
	// ErrCredentials: the server refuses the user or the password.
	ErrCredentials = errors.New("server refuses the administrator's credentials")
	// ErrCertificate: the certificate of the server cannot be verified.
	ErrCertificate = errors.New("certificate of the server cannot be verified")
	// ErrLoading: the server is reading its data and will answer soon.
	ErrLoading = errors.New("server is still loading its data")
	// ErrDenied: the administrator's user lacks a right.
	ErrDenied = errors.New("administrator's user lacks a right")
	// ErrUserChanged: a user is not what was just programmed.
	ErrUserChanged = errors.New("the server reads back other rules than were programmed: does another program manage its users?")
)

// NeedsPerson reports whether the server answered, and what it answered becomes no other by trying again: a right is missing, something else
// administers it too, or it refuses the command. It is the opposite of a server that cannot be reached, starts, or asks for other credentials.
// The text of such an error is the same at every attempt.
func NeedsPerson(err error) bool {
	switch {
	case errors.Is(err, ErrDenied), errors.Is(err, ErrUserChanged):
		return true
	case errors.Is(err, ErrUnreachable), errors.Is(err, ErrCredentials), errors.Is(err, ErrLoading):
		return false
	}
	return isReply(err)
}

func connectError(target Target, err error) error {
	return fmt.Errorf("connect to %s as %q: %w", target.Address, target.Username, classify(err))
}

// classify adds the sentinel that fits to an error of the server or of the connection.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w: %w", ErrCertificate, untrusted)
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return &unreachableError{err}
	}
	text := reply.Error()
	switch {
	case strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "NOAUTH"), strings.HasPrefix(text, "ERR AUTH"),
		strings.HasPrefix(text, "ERR invalid password"):
		return fmt.Errorf("%w: %w", ErrCredentials, err)
	case strings.HasPrefix(text, "LOADING"), strings.HasPrefix(text, "BUSY "), strings.HasPrefix(text, "MASTERDOWN"):
		return fmt.Errorf("%w: %w", ErrLoading, err)
	case strings.HasPrefix(text, "NOPERM"):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return err
}

// unreachableError is an ErrUnreachable whose text is the same at every attempt, so that it can be shown in a status without a write for each:
// the errors of connections have the local port in them, which is always another one.
type unreachableError struct{ cause error }

func (e *unreachableError) Unwrap() []error { return []error{ErrUnreachable, e.cause} }

func (e *unreachableError) Error() string { return ErrUnreachable.Error() + ": " + steadyText(e.cause) }

func steadyText(err error) string {
	var lookup *net.DNSError
	var operation *net.OpError
	switch {
	case errors.As(err, &lookup):
		switch {
		case lookup.IsNotFound:
			return "lookup " + lookup.Name + ": no such host"
		case lookup.IsTimeout:
			return "lookup " + lookup.Name + ": timeout"
		}
		return "lookup " + lookup.Name + " failed"
	case errors.As(err, &operation) && operation.Err != nil:
		return operation.Op + ": " + steadyText(operation.Err)
	}
	return err.Error()
}

// wrap says which operation failed.
func wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", operation, classify(err))
}
