// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resource is what the locks of a fault run guard: for each key a list that a holder reads, and writes back with an entry of its own. Two holders at once
// lose an update. Each list exists twice: one that takes every write, and one with a fence, which remembers the greatest token that it has
// seen and refuses smaller ones.
package resource

import (
	"encoding/json"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Write is an attempt to add an entry.
type Write struct {
	ID    string       `json:"id"`
	Token driver.Token `json:"token"`
	// Accepted says that the list took it.
	Accepted bool `json:"accepted"`
	// Valid says that the writer's lock was valid before and after; the writer tells it later.
	Valid bool `json:"valid,omitempty"`
}

// Log is what became of one list.
type Log struct {
	Fenced bool     `json:"fenced"`
	Writes []Write  `json:"writes"`
	Final  []string `json:"final"`

	seen driver.Token
}

// Request is one of "read", "write" and "confirm".
type Request struct {
	Do    string       `json:"do"`
	Key   string       `json:"key"`
	ID    string       `json:"id"`
	Token driver.Token `json:"token"`
	// Open and Fenced are the lengths that a read has returned: the writer replaces all that came after.
	Open   int `json:"open"`
	Fenced int `json:"fenced"`
}

// Answer has the lengths of both lists after a read; -1 when the fence refused the token.
type Answer struct {
	Open   int `json:"open"`
	Fenced int `json:"fenced"`
}

// Server keeps the lists. It is safe for concurrent use.
type Server struct {
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	lists map[string]*[2]*Log
}

// Listen serves on a Unix socket, which can be reached from all network namespaces.
func Listen(path string) (*Server, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, conns: map[net.Conn]bool{}, lists: map[string]*[2]*Log{}}
	s.work.Go(s.accept)
	return s, nil
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			s.mu.Lock()
			s.conns[conn] = true
			s.mu.Unlock()
			s.work.Go(func() { s.serve(conn) })
		}
	}
}

func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var r Request
		if in.Decode(&r) != nil {
			return
		}
		if out.Encode(s.answer(r)) != nil {
			return
		}
	}
}

func (s *Server) answer(r Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists := s.lists[r.Key]
	if lists == nil {
		lists = &[2]*Log{{}, {Fenced: true}}
		s.lists[r.Key] = lists
	}
	base := [2]int{r.Open, r.Fenced}
	var lengths [2]int
	for i, l := range lists {
		lengths[i] = l.handle(r, base[i])
	}
	return Answer{Open: lengths[0], Fenced: lengths[1]}
}

func (l *Log) handle(r Request, base int) int {
	stale := l.Fenced && r.Token.Less(l.seen)
	switch {
	case r.Do == "confirm":
		for i := range slices.Backward(l.Writes) {
			if l.Writes[i].ID == r.ID {
				l.Writes[i].Valid = true
				break
			}
		}
		return len(l.Final)
	case stale:
		if r.Do == "write" {
			l.Writes = append(l.Writes, Write{ID: r.ID, Token: r.Token})
		}
		return -1
	}
	l.seen = r.Token
	if r.Do == "write" {
		if base < 0 { // What was refused to be read cannot be written back.
			l.Writes = append(l.Writes, Write{ID: r.ID, Token: r.Token})
			return -1
		}
		l.Final = append(slices.Clone(l.Final[:min(base, len(l.Final))]), r.ID)
		l.Writes = append(l.Writes, Write{ID: r.ID, Token: r.Token, Accepted: true})
	}
	return len(l.Final)
}

// Close ends the server and returns the lists by key: the open one and the one with the fence.
func (s *Server) Close() map[string]*[2]*Log {
	_ = s.listener.Close()
	s.mu.Lock()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
	return s.lists
}

// Client is one process's connection. It is safe for concurrent use.
type Client struct {
	mu   sync.Mutex
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

// Dial connects to a Server.
func Dial(path string) (*Client, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn)}, nil
}

// Ask sends a request and waits for the answer.
func (c *Client) Ask(r Request) (Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var a Answer
	return a, errors.Join(c.out.Encode(r), c.in.Decode(&a))
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
