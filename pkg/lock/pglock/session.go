// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// session is a connection that one goroutine uses. Between two requests it listens, so that it learns at once when the server ends it.
//
// A request runs to its end also when its caller has gone: breaking it off would end the connection, and with it the advisory locks of
// all that the session holds.
type session struct {
	conn *pgx.Conn
	pid  uint32
	// waits says that the session was opened to wait for a key.
	waits    bool
	requests chan *request
	// stop ends the session; done is closed when it has ended, and err says why.
	stop context.CancelFunc
	done chan struct{}
	err  error
}

type request struct {
	ctx     context.Context
	timeout time.Duration
	run     func(ctx context.Context, conn *pgx.Conn) error
	// after is called once, when run has ended or will never begin.
	after func()

	// sent and err are set before done is closed.
	sent bool
	err  error
	done chan struct{}
}

// serve starts the goroutine of a connection.
func (d *Driver) serve(conn *pgx.Conn, pid uint32, waits bool) *session {
	ctx, stop := context.WithCancel(d.ctx)
	s := &session{conn: conn, pid: pid, waits: waits, requests: make(chan *request), stop: stop, done: make(chan struct{})}
	d.work.Go(func() {
		if s.err = s.loop(ctx, d.notified); s.err == nil {
			s.err = errSessionEnded
		}
		stop()
		// Nobody waits for the goodbye, which takes long when the server is silent.
		d.sessionEnded(s)
		close(s.done)
		hangUp(s.conn, d.options.AttemptTimeout)
		d.sessionGone(s)
	})
	return s
}

// hangUp says goodbye to the server if it can, and waits for a while until the connection is gone.
func hangUp(conn *pgx.Conn, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_ = conn.Close(ctx)
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// loop returns why the session is over.
func (s *session) loop(ctx context.Context, notify func(payload string)) error {
	for {
		watchCtx, unwatch := context.WithCancel(ctx)
		watched := make(chan error, 1)
		go func() { watched <- s.watch(watchCtx, notify) }()
		select {
		case err := <-watched:
			unwatch()
			return err
		case r := <-s.requests:
			unwatch()
			if err := <-watched; s.conn.IsClosed() {
				r.err = err
				r.end()
				return err
			}
			err := s.run(ctx, r)
			if s.conn.IsClosed() {
				return err
			}
		}
	}
}

// watch reads until ctx ends, or the session.
func (s *session) watch(ctx context.Context, notify func(payload string)) error {
	for {
		n, err := s.conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n != nil {
			notify(n.Payload)
		}
	}
}

func (r *request) end() {
	r.after()
	close(r.done)
}

func (s *session) run(ctx context.Context, r *request) error {
	defer r.end()
	if r.ctx.Err() != nil {
		r.err = context.Cause(r.ctx)
		return nil
	}
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.timeout)
		defer cancel()
	}
	r.sent, r.err = true, r.run(ctx, s.conn)
	return r.err
}

// errSessionEnded: the session ended within a request that did not mind.
var errSessionEnded = errors.New("the session has ended")

// errAbandoned: the caller has gone, and the request goes on without it.
var errAbandoned = errors.New("the caller did not wait for the answer")

// do has a request run, for at most timeout, and waits for it until ctx ends. Sent is false when it is certain that it never ran and never
// will. What run leaves behind may be read only when the error is not errAbandoned. After is called once, when run has ended or will never begin.
func (s *session) do(ctx context.Context, timeout time.Duration, run func(ctx context.Context, conn *pgx.Conn) error, after func()) (sent bool, err error) {
	if ctx.Err() != nil {
		after()
		return false, context.Cause(ctx)
	}
	r := &request{ctx: ctx, timeout: timeout, run: run, after: after, done: make(chan struct{})}
	select {
	case s.requests <- r:
	case <-s.done:
		after()
		return false, s.err
	case <-ctx.Done():
		after()
		return false, context.Cause(ctx)
	}
	select {
	case <-r.done:
		return r.sent, r.err
	case <-ctx.Done():
		return true, errAbandoned
	}
}

func (s *session) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// endedByAdministrator reports whether the server says that somebody ended the session.
func endedByAdministrator(err error) bool {
	var answered *pgconn.PgError
	return errors.As(err, &answered) && answered.Code == codeAdminShutdown
}
