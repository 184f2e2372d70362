// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

const (
	// parkLimit is how long an advisory lock is kept for the acquire that it was waited for.
	parkLimit = time.Second
	// A waiter whose turn came while the row says that the key is held, since its holder lost its session, asks again after a pause.
	pauseFirst   = 100 * time.Millisecond
	pauseLongest = time.Second
)

// subscription waits in the database for the advisory lock of a key, in a session of its own. When it gets it, the next acquire of the key goes through
// that session, and keeps it if the key is granted.
type subscription struct {
	d    *Driver
	key  driver.Key
	hash int64
	wake chan struct{}
	// rearm has a value when an acquire of this process was told that the key is held.
	rearm  chan struct{}
	ctx    context.Context
	cancel context.CancelFunc

	// current is the parked turn, or nil; Driver.mu guards it.
	current *turn
}

// turn is a session that has the advisory lock of a key, until an acquire has gone through it.
type turn struct {
	on *session
	// kept has what became of it, once: true when the session belongs to a hold now.
	kept chan bool
	once sync.Once
}

func (t *turn) session() *session {
	if t == nil {
		return nil
	}
	return t.on
}

// settle tells the subscription what became of its turn; only the first call counts.
func (t *turn) settle(kept bool) {
	if t != nil {
		t.once.Do(func() { t.kept <- kept })
	}
}

// Subscribe waits in the database until the key is free: see driver.Waiter. Since it gets the lock itself, no release can be missed, also none before the
// wait began. Each key that is waited for has a session of its own.
func (d *Driver) Subscribe(ctx context.Context, key driver.Key) (driver.Subscription, error) {
	const op = "subscribe"
	u := &subscription{d: d, key: key, hash: KeyHash(key), wake: make(chan struct{}, 1), rearm: make(chan struct{}, 1)}
	s, err := d.waitSession(ctx, op)
	if err != nil {
		return nil, err
	}
	u.ctx, u.cancel = context.WithCancel(d.ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		u.cancel()
		s.stop()
		return nil, closed(op)
	}
	if d.subs[key] == nil {
		d.subs[key] = make(map[*subscription]struct{})
	}
	d.subs[key][u] = struct{}{}
	d.work.Go(func() { u.run(s) })
	return u, nil
}

// waitSession opens a session to wait in, if there may be one more.
func (d *Driver) waitSession(ctx context.Context, op string) (*session, error) {
	d.mu.Lock()
	switch {
	case d.closed:
		d.mu.Unlock()
		return nil, closed(op)
	case d.waiting >= d.options.MaxSessions-1:
		d.mu.Unlock()
		return nil, &driver.StoreError{
			Outcome: driver.ErrUnavailable, Op: op, Reason: ReasonMaxSessions,
			Remedy: "raise Options.MaxSessions to wait in the database for more keys at once; until then waits poll",
		}
	}
	d.waiting++
	d.mu.Unlock()
	s, err := d.open(ctx, true)
	if err == nil {
		return s, nil
	}
	d.mu.Lock()
	d.waiting--
	d.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ended(ctx, op, driver.ErrUnavailable)
	}
	return nil, explainConnect(op, err)
}

// Wake implements driver.Subscription.
func (u *subscription) Wake() <-chan struct{} { return u.wake }

// Close implements driver.Subscription. The wait in the database is broken off with its session, so whatever it may just have got is given back.
func (u *subscription) Close() {
	u.d.mu.Lock()
	defer u.d.mu.Unlock()
	delete(u.d.subs[u.key], u)
	if len(u.d.subs[u.key]) == 0 {
		delete(u.d.subs, u.key)
	}
	u.cancel()
}

func (u *subscription) signal() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// run waits again and again, in s or a session that follows it, until the subscription is closed.
func (u *subscription) run(s *session) {
	pause := pauseFirst
	for u.ctx.Err() == nil {
		if s == nil {
			if s = u.reopen(); s == nil {
				return
			}
		}
		got, err := u.await(s)
		switch {
		case u.ctx.Err() != nil:
		case err != nil:
			s.stop()
			s = nil
			// What happened meanwhile may have been missed.
			u.signal()
			u.sleep(pause)
			pause = min(2*pause, pauseLongest)
		case got && u.offer(s):
			s, pause = nil, pauseFirst
			if !u.disarmed() {
				return
			}
		case got:
			if _, err := s.do(u.ctx, u.d.options.AttemptTimeout, func(ctx context.Context, conn *pgx.Conn) error { return unlock(ctx, conn, u.hash) }, func() {}); err != nil {
				s.stop()
				s = nil
			}
			u.sleep(pause)
			pause = min(2*pause, pauseLongest)
		}
	}
	if s != nil {
		s.stop()
	}
}

// reopen returns a new session, or nil when the subscription was closed.
func (u *subscription) reopen() *session {
	for pause := pauseFirst; ; pause = min(2*pause, pauseLongest) {
		s, err := u.d.waitSession(u.ctx, "subscribe")
		if err == nil {
			u.signal()
			return s
		}
		u.d.options.Logger.DebugContext(u.ctx, "no session to wait in", "error", err)
		if !u.sleep(pause) {
			return nil
		}
	}
}

// sleep reports false when the subscription was closed.
func (u *subscription) sleep(pause time.Duration) bool {
	timer := u.d.options.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-u.ctx.Done():
		return false
	}
}

// disarmed sleeps until this process finds the key held by another; while it has the key itself it need not wait for it. It reports false when the
// subscription was closed.
func (u *subscription) disarmed() bool {
	select {
	case <-u.rearm:
		return true
	case <-u.ctx.Done():
		return false
	}
}

// await waits in the database for the advisory lock, for one slice of time.
func (u *subscription) await(s *session) (got bool, err error) {
	// The request ends with the subscription, and the session with it.
	_, err = s.do(context.WithoutCancel(u.ctx), 0, func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(u.ctx, cancel)()
		err := u.d.waitFor(ctx, conn, u.hash)
		var answered *pgconn.PgError
		if errors.As(err, &answered) && answered.Code == codeLockNotAvailable {
			// The lock may have been granted at the very end of the time: https://github.com/madelson/DistributedLock/issues/147.
			upper, lower := halves(u.hash)
			return conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks
				WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted AND classid = $1::int::oid AND objid = $2::int::oid AND objsubid = 1)`, upper, lower).Scan(&got)
		}
		got = err == nil
		return err
	}, func() {})
	return got, err
}

// waitFor waits for one slice of time. The other statements of the session wait for locks no longer than those of any session.
func (d *Driver) waitFor(ctx context.Context, conn *pgx.Conn, hash int64) error {
	batch := &pgx.Batch{}
	batch.Queue("SELECT set_config('lock_timeout', $1, true)", strconv.FormatInt(d.options.WaitSlice.Milliseconds(), 10))
	batch.Queue("SELECT pg_advisory_lock($1::bigint)", hash)
	return conn.SendBatch(ctx, batch).Close()
}

// signalAll wakes all waiters; d.mu is held.
func (d *Driver) signalAll() {
	for _, subs := range d.subs {
		for u := range subs {
			u.signal()
		}
	}
}

// offer keeps the advisory lock for the next acquire of the key, and reports whether that kept the session.
func (u *subscription) offer(s *session) bool {
	t := &turn{on: s, kept: make(chan bool, 1)}
	u.d.mu.Lock()
	u.current = t
	// Only what an acquire is told from now on counts.
	select {
	case <-u.rearm:
	default:
	}
	u.d.mu.Unlock()
	u.signal()
	timer := u.d.options.Clock.NewTimer(parkLimit)
	defer timer.Stop()
	select {
	case kept := <-t.kept:
		return kept
	case <-timer.C():
	case <-s.done:
	case <-u.ctx.Done():
	}
	u.d.mu.Lock()
	mine := u.current == t
	u.current = nil
	u.d.mu.Unlock()
	// An acquire that has begun with the turn tells what became of it.
	return !mine && <-t.kept
}

// takeParked returns the turn that a subscription of the key offers, or nil. Whoever takes it settles it.
func (d *Driver) takeParked(key driver.Key) *turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	for u := range d.subs[key] {
		if t := u.current; t != nil {
			u.current = nil
			return t
		}
	}
	return nil
}

// rearm lets the subscriptions of a key wait again.
func (d *Driver) rearm(key driver.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for u := range d.subs[key] {
		select {
		case u.rearm <- struct{}{}:
		default:
		}
	}
}

// notified is told of what other processes did.
func (d *Driver) notified(payload string) {
	kind, rest, _ := strings.Cut(payload, " ")
	number, id, _ := strings.Cut(rest, " ")
	hash, err := strconv.ParseInt(number, 10, 64)
	if err != nil || (kind != "freed" && kind != "forced") {
		return
	}
	d.mu.Lock()
	for key, subs := range d.subs {
		if KeyHash(key) == hash {
			for u := range subs {
				u.signal()
			}
		}
	}
	h := d.held[id]
	d.mu.Unlock()
	if kind == "forced" && h != nil && h.hash == hash {
		d.takenAway(h)
	}
}

// takenAway ends a hold that somebody took away by force.
func (d *Driver) takenAway(h *hold) {
	if d.expire(h) {
		h.onLost(forcedError{})
	}
}
