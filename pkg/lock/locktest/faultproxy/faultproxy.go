// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faultproxy is a TCP proxy on the loopback address that a test puts between a client and a real server, to disturb the path:
// answers kept back, answers lost, a server that is down, a network that swallows everything, a slow one, connections cut. It
// knows no protocol, so it serves Redis, HTTP and PostgreSQL alike. A Proxy is a locktest.Fault.
package faultproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy passes connections on to a server, and disturbs them as it is told. All methods are safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	closed   chan struct{}
	work     sync.WaitGroup

	mu      sync.Mutex
	mode    mode
	delay   time.Duration
	changed chan struct{} // closed at each change
	conns   map[*pair]struct{}
}

type mode int

const (
	healthy mode = iota
	holding
	dropping
	refusing
	swallowing
)

// New starts a proxy before the server on target, "host:port". It ends with the test.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("faultproxy: %v", err)
	}
	p := &Proxy{
		target: target, listener: listener, closed: make(chan struct{}),
		changed: make(chan struct{}), conns: make(map[*pair]struct{}),
	}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		close(p.closed)
		_ = listener.Close()
		p.Cut()
		p.work.Wait()
	})
	return p
}

// Addr is the address to connect to instead of the server's.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// HoldResponses lets requests through and keeps the answers back until Heal.
func (p *Proxy) HoldResponses() { p.set(holding, 0) }

// DropResponses lets requests through and resets the connection instead of answering.
func (p *Proxy) DropResponses() { p.set(dropping, 0) }

// BlackHole lets nothing through in either direction, and no connection ends: what was sent arrives at Heal, as from a network that comes back.
func (p *Proxy) BlackHole() { p.set(swallowing, 0) }

// Refuse ends all connections, and resets new ones before a byte went through: a server that is down.
func (p *Proxy) Refuse() {
	p.set(refusing, 0)
	p.Cut()
}

// Delay keeps each answer back for d, and otherwise heals.
func (p *Proxy) Delay(d time.Duration) { p.set(healthy, d) }

// Heal lets everything through again, what was kept back included.
func (p *Proxy) Heal() { p.set(healthy, 0) }

// Cut resets the open connections, once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.reset()
		delete(p.conns, c)
	}
}

// Connections is the number of open connections.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func (p *Proxy) set(m mode, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode, p.delay = m, delay
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) now() (mode, time.Duration, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.delay, p.changed
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.work.Go(func() { p.serve(client) })
		}
	}
}

func (p *Proxy) serve(client net.Conn) {
	c := &pair{client: client}
	defer c.reset()
	if m, _, _ := p.now(); m == refusing {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-p.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	var err error
	if c.server, err = (&net.Dialer{}).DialContext(ctx, "tcp", p.target); err != nil {
		return
	}
	if !p.add(c) {
		return
	}
	defer p.remove(c)
	var pumps sync.WaitGroup
	pumps.Go(func() { p.pump(c, c.client, c.server, p.passRequest) })
	pumps.Go(func() { p.pump(c, c.server, c.client, p.passResponse) })
	pumps.Wait()
}

// add reports false when the path was refused in the meantime.
func (p *Proxy) add(c *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		return false
	default:
	}
	if p.mode == refusing {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) remove(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// pump copies one direction. pass waits until a piece may go on; false ends the connection.
func (p *Proxy) pump(c *pair, from, to net.Conn, pass func() bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !pass() {
				c.reset()
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				c.reset()
				return
			}
		}
		if errors.Is(err, io.EOF) {
			if half, ok := to.(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
			return
		}
		if err != nil {
			c.reset()
			return
		}
	}
}

func (p *Proxy) passRequest() bool {
	return p.pass(func(m mode) (goesOn, ends bool) { return m != swallowing && m != refusing, m == refusing })
}

func (p *Proxy) passResponse() bool {
	return p.pass(func(m mode) (goesOn, ends bool) { return m == healthy, m == dropping || m == refusing }) && p.wait()
}

func (p *Proxy) pass(rule func(mode) (goesOn, ends bool)) bool {
	for {
		m, _, changed := p.now()
		goesOn, ends := rule(m)
		switch {
		case ends:
			return false
		case goesOn:
			return true
		}
		select {
		case <-changed:
		case <-p.closed:
			return false
		}
	}
}

// wait is over after the delay, or at a change of it.
func (p *Proxy) wait() bool {
	_, delay, changed := p.now()
	if delay <= 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-p.closed:
		return false
	}
	return true
}

// pair is a client's connection and the one to the server that belongs to it.
type pair struct {
	client, server net.Conn
}

// reset ends both without a goodbye.
func (c *pair) reset() {
	for _, conn := range []net.Conn{c.client, c.server} {
		if tcp, ok := conn.(*net.TCPConn); ok && tcp != nil {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
}
