// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// operation is one piece of server-side code, as a function and as a script.
type operation struct {
	name     string
	function string
	readOnly bool
	script   redisproto.Script
}

type operations struct{ acquire, pass, renew, release, forceRelease, inspect, list operation }

// newOperations are those for a server that an operator looks after, or that none does.
func newOperations(operated bool) operations {
	acquire, pass := redisproto.AcquireScript(), redisproto.PassScript()
	if operated {
		acquire, pass = redisproto.AcquireOperatedScript(), redisproto.PassOperatedScript()
	}
	return operations{
		acquire: operation{"acquire", redisproto.FunctionAcquire, false, acquire},
		pass:    operation{"pass", redisproto.FunctionPass, false, pass},
		renew:   operation{"renew", redisproto.FunctionRenew, false, redisproto.RenewScript()},
		release: operation{"release", redisproto.FunctionRelease, false, redisproto.ReleaseScript()},
		inspect: operation{"inspect", redisproto.FunctionInspect, true, redisproto.InspectScript()},
		list:    operation{"list", redisproto.FunctionList, true, redisproto.ListScript()},

		forceRelease: operation{"force-release", redisproto.FunctionForceRelease, false, redisproto.ForceReleaseScript()},
	}
}

// run sends the request once; a script that the server does not have, and so did not run, is sent once more, in full, unless an operator decides
// when it is loaded.
func (o operation) run(ctx context.Context, client redis.UniversalClient, access binding.Access, operated bool, keys []string, args []any) (any, error) {
	cmd := o.command(ctx, access, keys, args)
	_ = client.Process(ctx, cmd)
	reply, err := cmd.Result()
	if access == binding.AccessScripts && !operated && redis.HasErrorPrefix(err, "NOSCRIPT") {
		return o.sendSource(ctx, client, keys, args, err)
	}
	return reply, err
}

// command calls the function, or the script by its name.
func (o operation) command(ctx context.Context, access binding.Access, keys []string, args []any) command {
	switch {
	case access == binding.AccessFunctions && o.readOnly:
		return newCommand(ctx, "fcall_ro", o.function, keys, args)
	case access == binding.AccessFunctions:
		return newCommand(ctx, "fcall", o.function, keys, args)
	default:
		return newCommand(ctx, "evalsha", o.script.SHA1, keys, args)
	}
}

// sendSource sends a script in full that the server has said it does not have.
func (o operation) sendSource(ctx context.Context, client redis.UniversalClient, keys []string, args []any, missing error) (any, error) {
	cmd := newCommand(ctx, "eval", o.script.Source, keys, args)
	_ = client.Process(ctx, cmd)
	reply, err := cmd.Result()
	if redis.HasErrorPrefix(err, "NOPERM") {
		// A user who may run only what the operator has loaded waits until it is loaded again.
		return nil, missing
	}
	return reply, err
}

// command is one that the client does not send again by itself, whatever its MaxRetries: an acquire whose answer was lost may have been
// applied.
type command struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (command) NoRetry() bool { return true }

// Clone implements redis.Cmder.
func (c command) Clone() redis.Cmder { return command{c.Cmd.Clone().(*redis.Cmd)} }

// firstKey is the place of the first key, which tells a client of a cluster where to send the request.
const firstKey = 3

func newCommand(ctx context.Context, name, code string, keys []string, args []any) command {
	words := make([]any, 0, firstKey+len(keys)+len(args))
	words = append(words, name, code, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := command{redis.NewCmd(ctx, append(words, args...)...)}
	cmd.SetFirstKeyPos(firstKey)
	// A client of a cluster asks the server for what it is not told here, which takes a round trip, and a right that a tenant lacks.
	cmd.SetStepCount(1)
	return cmd
}

// mark is the acquisition id as an argument of a request. The client asks for its bytes when it writes the request, so the mark knows
// whether any of it can have left; after abandon it gives none, so that a request whose caller has gone is not sent later.
type mark struct {
	id    string
	state atomic.Int32
}

const (
	unwritten int32 = iota
	written
	abandonedUnwritten
	abandonedWritten
)

var errAbandoned = errors.New("the caller of the request has gone")

// MarshalBinary gives the id to the client that writes the request.
func (m *mark) MarshalBinary() ([]byte, error) {
	if m.state.CompareAndSwap(unwritten, written) || m.state.Load() == written {
		return []byte(m.id), nil
	}
	return nil, errAbandoned
}

// abandon keeps the request from being written from now on. It reports whether it may have been written before.
func (m *mark) abandon() (wasWritten bool) {
	if m.state.CompareAndSwap(unwritten, abandonedUnwritten) {
		return false
	}
	m.state.CompareAndSwap(written, abandonedWritten)
	return m.wasWritten()
}

func (m *mark) wasWritten() bool {
	s := m.state.Load()
	return s == written || s == abandonedWritten
}

type answer struct {
	reply any
	err   error
}

// call runs an operation for at most limit and at most as long as ctx.
func (d *Driver) call(ctx context.Context, o operation, key driver.Key, limit time.Duration, keys []string, m *mark, args ...any) (any, error) {
	if err := d.refuse(ctx, o, key); err != nil {
		return nil, err
	}
	a, gone := await(ctx, d, limit, func(attempt context.Context) answer {
		reply, err := o.run(attempt, d.client, d.access(), d.options.Operated, keys, args)
		if d.rotated(err) {
			reply, err = o.run(attempt, d.client, d.access(), d.options.Operated, keys, args)
		}
		if listRefused(keys, err) {
			reply, err = o.run(attempt, d.client, d.access(), d.options.Operated, keys[:listKey], args)
			d.unlisted.note(key.Prefix, err)
		}
		return answer{reply, err}
	}, func() { m.abandon() })
	if gone != nil {
		return nil, gone.outcome(ctx, o, key, m)
	}
	return finish(o, key, m, a)
}

// refuse tells what need not be sent.
func (d *Driver) refuse(ctx context.Context, o operation, key driver.Key) error {
	if ctx.Err() != nil {
		return ended(ctx, o.name, driver.ErrUnavailable)
	}
	if err := d.changed(); err != nil {
		return explain(o.name, key.Name, false, err)
	}
	return nil
}

// gone says why nobody waits for an answer any more: the driver is closed, or the time of the attempt is up, or the caller has gone.
type gone struct{ err error }

// await runs requests for at most limit and at most as long as ctx. They run in a goroutine of their own, since the client does not hear of a
// cancelled context while it reads. Once abandon has been called, nothing more of them may be written.
func await[T any](ctx context.Context, d *Driver, limit time.Duration, request func(attempt context.Context) T, abandon func()) (answer T, why *gone) {
	attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	answers := make(chan T, 1)
	if !d.start(func() { answers <- request(attempt) }) {
		return answer, &gone{redis.ErrClosed}
	}
	select {
	case answer = <-answers:
		return answer, nil
	case <-ctx.Done():
	case <-attempt.Done():
	}
	abandon()
	select {
	case answer = <-answers:
		return answer, nil
	default:
		return answer, &gone{attempt.Err()}
	}
}

// outcome is that of one of the requests.
func (g *gone) outcome(ctx context.Context, o operation, key driver.Key, m *mark) error {
	applied := m.wasWritten() && !o.readOnly
	switch {
	case errors.Is(g.err, redis.ErrClosed):
		return &driver.StoreError{Outcome: driver.ErrUnavailable, Op: o.name, Reason: ReasonClosed, Err: redis.ErrClosed}
	case ctx.Err() == nil:
		return explain(o.name, key.Name, applied, g.err)
	case applied:
		return ended(ctx, o.name, driver.ErrUnknown)
	default:
		return ended(ctx, o.name, driver.ErrUnavailable)
	}
}

func finish(o operation, key driver.Key, m *mark, a answer) (any, error) {
	if a.err != nil {
		return nil, explain(o.name, key.Name, m.wasWritten() && !o.readOnly, a.err)
	}
	return a.reply, nil
}
