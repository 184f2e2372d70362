// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// fault disturbs the connections that it dials. It is a locktest.Fault.
type fault struct {
	mu      sync.Mutex
	mode    mode
	changed chan struct{} // closed at each change of mode
	conns   map[*faultyConn]struct{}
}

type mode int

const (
	healthy mode = iota
	holding
	dropping
	refusing
)

func newFault() *fault {
	return &fault{changed: make(chan struct{}), conns: map[*faultyConn]struct{}{}}
}

func (f *fault) HoldResponses() { f.set(holding) }
func (f *fault) DropResponses() { f.set(dropping) }
func (f *fault) Heal()          { f.set(healthy) }

// Refuse ends the open connections as well: the server is down.
func (f *fault) Refuse() {
	f.set(refusing)
	f.cut()
}

// cut ends the open connections.
func (f *fault) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Conn.Close()
	}
}

func (f *fault) set(m mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = m
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fault) now() (mode, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mode, f.changed
}

func (f *fault) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if m, _ := f.now(); m == refusing {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &faultyConn{Conn: conn, fault: f, closed: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[c] = struct{}{}
	return c, nil
}

type faultyConn struct {
	net.Conn
	fault  *fault
	once   sync.Once
	closed chan struct{}
}

func (c *faultyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for err == nil {
		m, changed := c.fault.now()
		switch m {
		case healthy:
			return n, nil
		case dropping, refusing:
			_ = c.Conn.Close()
			return 0, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
		case holding:
			select {
			case <-changed:
			case <-c.closed:
				return 0, net.ErrClosed
			}
		}
	}
	return n, err
}

func (c *faultyConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.fault.mu.Lock()
		defer c.fault.mu.Unlock()
		delete(c.fault.conns, c)
	})
	return c.Conn.Close()
}
