// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// mode is how a request is disturbed.
type mode string

const (
	// kill ends the operator before a change: nothing gets through from there on.
	kill mode = "kill"
	// fail does not send a request.
	fail mode = "fail"
	// lose sends a change and takes its answer away.
	lose mode = "lose"
)

var errDisturbed = errors.New("the connection has broken")

// faults disturb one operator. The zero value disturbs nothing, and counts. They are safe for concurrent use.
type faults struct {
	mu      sync.Mutex
	mode    mode
	left    int
	armed   bool
	struck  string // the request that was disturbed
	dead    bool
	changes int // how many were attempted
	// refuse is what the API server answers to a write instead of doing it; nil is never.
	refuse func(write string) error
}

// arm disturbs the n-th request, from 0, that the mode is about.
func (f *faults) arm(m mode, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode, f.left, f.armed = m, n, true
}

// ended reports whether the operator was killed.
func (f *faults) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// what was disturbed; empty is nothing.
func (f *faults) what() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck
}

// changed is how many changes were attempted since the last call.
func (f *faults) changed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.changes
	f.changes = 0
	return n
}

// ask decides about a request: whether it is sent, and whether its answer arrives.
func (f *faults) ask(request string, changes bool) (send, answer bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return false, false
	}
	if changes {
		f.changes++
	}
	if !f.armed || !changes && f.mode != fail {
		return true, true
	}
	if f.left > 0 {
		f.left--
		return true, true
	}
	f.armed, f.struck, f.dead = false, request, f.mode == kill
	return f.mode == lose, false
}

// do sends a write to the API server, as far as it is not disturbed.
func (f *faults) do(verb string, object any, send func() error) error {
	write := fmt.Sprintf("%s %T", verb, object)
	sent, answered := f.ask(write, true)
	if f.refuse != nil {
		if err := f.refuse(write); err != nil {
			return err
		}
	}
	var err error
	if sent {
		err = send()
	}
	if !answered {
		return fmt.Errorf("%s: %w", verb, errDisturbed)
	}
	return err
}

// reads fail only when the operator has ended: the state is the same as before.
func (f *faults) read(send func() error) error {
	if f.ended() {
		return errDisturbed
	}
	return send()
}

// client disturbs the requests of a client of the API server.
func (f *faults) client(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return f.read(func() error { return c.Get(ctx, key, object, options...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return f.read(func() error { return c.List(ctx, list, options...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return f.do("create", object, func() error { return c.Create(ctx, object, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return f.do("update", object, func() error { return c.Update(ctx, object, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return f.do("patch", object, func() error { return c.Patch(ctx, object, patch, options...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			return f.do("apply", object, func() error { return c.Apply(ctx, object, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return f.do("delete", object, func() error { return c.Delete(ctx, object, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return f.do("patch "+name+" of", object, func() error { return c.SubResource(name).Patch(ctx, object, patch, options...) })
		},
	})
}

// conn disturbs the requests to a Redis server. A request is what the client writes at once: a command, or several.
type conn struct {
	net.Conn
	faults *faults
	// mute takes the next answer away, once it has arrived.
	mute bool
}

func (c *conn) Write(data []byte) (int, error) {
	words := commands(data)
	sent, answered := c.faults.ask(strings.Join(words, "; "), slices.ContainsFunc(words, changesServer))
	if !sent {
		return 0, errDisturbed
	}
	c.mute = !answered
	return c.Conn.Write(data) //nolint:wrapcheck // It is the connection's.
}

func (c *conn) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	if c.mute && err == nil {
		return 0, errDisturbed
	}
	return n, err //nolint:wrapcheck // As above.
}

// changing are the commands with which an operator changes a server. EXEC stands for what is in its transaction.
var changing = []string{
	"SETNX", "EXEC", "DEL", "FCALL", "ACL SETUSER", "ACL DELUSER", "FUNCTION LOAD", "SCRIPT LOAD", "CONFIG SET", "CLIENT KILL",
}

func changesServer(command string) bool { return slices.Contains(changing, command) }

// commands are the names of the commands in a request, such as "ACL SETUSER".
func commands(request []byte) []string {
	var names []string
	for rest := string(request); rest != ""; {
		head, tail, _ := strings.Cut(rest, "\r\n")
		count, err := strconv.Atoi(strings.TrimPrefix(head, "*"))
		if err != nil {
			return append(names, "?")
		}
		var words []string
		for rest = tail; count > 0; count-- {
			head, tail, _ := strings.Cut(rest, "\r\n")
			length, err := strconv.Atoi(strings.TrimPrefix(head, "$"))
			if err != nil || length+2 > len(tail) {
				return append(names, "?")
			}
			words, rest = append(words, tail[:length]), tail[length+2:]
		}
		names = append(names, commandName(words))
	}
	return names
}

func commandName(words []string) string {
	name := strings.ToUpper(words[0])
	switch name {
	case "ACL", "FUNCTION", "SCRIPT", "CONFIG", "CLIENT":
		return name + " " + strings.ToUpper(words[1])
	}
	return name
}
