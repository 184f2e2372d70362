// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ locktest.Fault = (*faultproxy.Proxy)(nil)

// echo answers each line with itself, and tells which lines reached it.
func echo(t *testing.T) (address string, seen <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 16)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer conn.Close()
				reader := bufio.NewReader(conn)
				for {
					line, err := reader.ReadString('\n')
					if err != nil {
						return
					}
					lines <- line
					if _, err := io.WriteString(conn, line); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		work.Wait()
	})
	return listener.Addr().String(), lines
}

type client struct {
	net.Conn
	t      *testing.T
	reader *bufio.Reader
}

func dial(t *testing.T, address string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{Conn: conn, t: t, reader: bufio.NewReader(conn)}
}

func (c *client) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// receive waits for a line, long or as short a time as shows that none comes.
func (c *client) receive(wait time.Duration) (string, error) {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
		c.t.Fatal(err)
	}
	return c.reader.ReadString('\n')
}

const (
	long  = 30 * time.Second
	short = 50 * time.Millisecond
)

func (c *client) wantLine(want string) {
	c.t.Helper()
	if got, err := c.receive(long); err != nil || got != want+"\n" {
		c.t.Fatalf("received %q, %v, want %q", got, err, want)
	}
}

func (c *client) wantNothing() {
	c.t.Helper()
	if got, err := c.receive(short); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("received %q, %v, want nothing", got, err)
	}
}

func (c *client) wantEnd() {
	c.t.Helper()
	if got, err := c.receive(long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("received %q, %v, want the end of the connection", got, err)
	}
}

func TestFaults(t *testing.T) {
	address, seen := echo(t)
	proxy := faultproxy.New(t, address)
	c := dial(t, proxy.Addr())
	c.send("healthy")
	c.wantLine("healthy")
	<-seen

	proxy.HoldResponses()
	c.send("held")
	if got := <-seen; got != "held\n" {
		t.Fatalf("server saw %q", got)
	}
	c.wantNothing()
	proxy.Heal()
	c.wantLine("held")

	proxy.BlackHole()
	c.send("swallowed")
	c.wantNothing()
	if len(seen) > 0 {
		t.Fatalf("server saw %q through a black hole", <-seen)
	}
	proxy.Heal()
	c.wantLine("swallowed")
	<-seen

	proxy.Delay(time.Hour)
	c.send("slow")
	<-seen
	c.wantNothing()
	proxy.Delay(time.Nanosecond)
	c.wantLine("slow")

	proxy.DropResponses()
	c.send("dropped")
	if got := <-seen; got != "dropped\n" {
		t.Fatalf("server saw %q", got)
	}
	c.wantEnd()
	proxy.Heal()
	again := dial(t, proxy.Addr())
	again.send("back")
	again.wantLine("back")
	<-seen

	proxy.Refuse()
	again.wantEnd()
	// The reset may come so soon that it is the connect that fails.
	if conn, err := net.Dial("tcp", proxy.Addr()); err == nil {
		(&client{Conn: conn, t: t, reader: bufio.NewReader(conn)}).wantEnd()
		conn.Close()
	}
	if proxy.Connections() != 0 || len(seen) > 0 {
		t.Errorf("%d connections through a server that is down", proxy.Connections())
	}
	proxy.Heal()
	last := dial(t, proxy.Addr())
	last.send("up")
	last.wantLine("up")
	proxy.Cut()
	last.wantEnd()
	dial(t, proxy.Addr()).send("up")
}

func TestAClosedConnectionIsClosedBehindTheProxy(t *testing.T) {
	address, seen := echo(t)
	proxy := faultproxy.New(t, address)
	c := dial(t, proxy.Addr())
	c.send("a")
	c.wantLine("a")
	<-seen
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.wantEnd()
}
