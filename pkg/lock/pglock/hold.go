// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// hold is a granted acquisition of this process. Its row says who holds the key; its advisory lock lets others wait for it. Driver.mu guards it.
type hold struct {
	key    driver.Key
	id     string
	hash   int64
	onLost func(cause error)
	// session has the advisory lock; nil while none has.
	session *session
	// dedicated says that the session was opened to wait for this key, and ends with the hold.
	dedicated bool
	// expiry gives the advisory lock back when the row has run out.
	expiry clock.Timer
	// leaving says that a release is under way, which gives the advisory lock back; expired, that the time was over meanwhile.
	leaving, expired bool
}

// hold notes a grant. Another process may have the advisory lock for the moment; then it is taken later.
func (d *Driver) hold(h *hold, ttl time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armExpiry(h, ttl)
	d.held[h.id] = h
	if h.session == nil {
		d.attachSoon()
	}
}

// armExpiry starts the time of a grant or a renewal anew; d.mu is held.
func (d *Driver) armExpiry(h *hold, ttl time.Duration) {
	if h.expiry != nil {
		h.expiry.Stop()
	}
	h.expiry = d.options.Clock.AfterFunc(ttl, func() { d.expire(h) })
}

// expire gives up a hold whose time is over, so that its advisory lock does not keep others waiting. It reports whether it was one.
func (d *Driver) expire(h *hold) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.held[h.id] != h {
		return false
	}
	if h.leaving {
		h.expired = true
		return false
	}
	delete(d.held, h.id)
	h.expiry.Stop()
	s := h.session
	switch {
	case s == nil:
	case h.dedicated:
		s.stop()
	default:
		d.work.Go(func() {
			_, _ = s.do(d.ctx, d.options.AttemptTimeout, func(ctx context.Context, conn *pgx.Conn) error { return unlock(ctx, conn, h.hash) }, func() {})
		})
	}
	return true
}

func unlock(ctx context.Context, conn *pgx.Conn, hash int64) error {
	_, err := conn.Exec(ctx, "SELECT pg_advisory_unlock($1::bigint)", hash)
	return err
}

// sessionOf returns the session that has the advisory lock of an acquisition, or nil.
func (d *Driver) sessionOf(id string) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.held[id]; h != nil {
		return h.session
	}
	return nil
}

// leave notes that a release begins on s, and reports whether that has the advisory lock to give back.
func (d *Driver) leave(id string, s *session) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.held[id]
	if h == nil {
		return false
	}
	h.leaving = true
	return h.session == s
}

// stay notes that a release failed.
func (d *Driver) stay(id string) {
	d.mu.Lock()
	h := d.held[id]
	expired := h != nil && h.expired
	if h != nil {
		h.leaving, h.expired = false, false
	}
	d.mu.Unlock()
	if expired {
		d.expire(h)
	}
}

func (d *Driver) isDetached(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.held[id]
	return h != nil && h.session == nil
}

// renewHold notes a renewal, and the advisory lock if s got it. It reports false when nobody holds the acquisition any more.
func (d *Driver) renewHold(id string, ttl time.Duration, s *session, advisory bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.held[id]
	if h == nil {
		return false
	}
	d.armExpiry(h, ttl)
	if advisory {
		h.session = s
	}
	return true
}

// passHold notes that an acquisition was followed by another of this process, in the same session.
func (d *Driver) passHold(from string, to *hold, ttl time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before := d.held[from]; before != nil {
		before.expiry.Stop()
		delete(d.held, from)
		to.session, to.dedicated = before.session, before.dedicated
	}
	d.armExpiry(to, ttl)
	d.held[to.id] = to
	if to.session == nil {
		d.attachSoon()
	}
}

// forget takes out an acquisition, and ends s if that was opened for it. It returns what it took out, or nil.
func (d *Driver) forget(id string, s *session) *hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.held[id]
	if h == nil {
		return nil
	}
	h.expiry.Stop()
	delete(d.held, id)
	if h.dedicated && h.session == s {
		s.stop()
	}
	return h
}

// letGo takes out an acquisition that the database does not know any more, and gives its advisory lock back.
func (d *Driver) letGo(ctx context.Context, id string, s *session, conn *pgx.Conn) error {
	if h := d.forget(id, s); h != nil && h.session == s && !h.dedicated {
		return unlock(ctx, conn, h.hash)
	}
	return nil
}

// sessionEnded detaches the holds of a session, or ends them if an administrator ended it.
func (d *Driver) sessionEnded(s *session) {
	var lost []*hold
	d.mu.Lock()
	if d.main == s {
		d.main = nil
		d.signalAll()
		if len(d.subs) > 0 {
			d.attachSoon()
		}
	}
	over := d.closed
	for id, h := range d.held {
		if h.session != s {
			continue
		}
		h.session, h.dedicated = nil, false
		if endedByAdministrator(s.err) {
			h.expiry.Stop()
			delete(d.held, id)
			lost = append(lost, h)
			continue
		}
		d.attachSoon()
	}
	d.mu.Unlock()
	if over {
		return
	}
	d.options.Logger.DebugContext(d.ctx, "session ended", "pid", s.pid, "error", s.err, "lost", len(lost))
	for _, h := range lost {
		h.onLost(&SessionEndedError{Err: s.err})
	}
}

// sessionGone makes room for another one.
func (d *Driver) sessionGone(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.waits {
		d.waiting--
	}
}

// attachSoon wakes attachAll.
func (d *Driver) attachSoon() {
	select {
	case d.detached <- struct{}{}:
	default:
	}
}

const (
	attachFirst   = 50 * time.Millisecond
	attachLongest = 5 * time.Second
)

// attachAll takes the advisory locks of holds that have none, again and again until all have theirs: after a break of a session, and
// where a waiter had it for the moment of the grant. While there are waiters it also keeps a session that hears what other processes tell.
func (d *Driver) attachAll() {
	for {
		select {
		case <-d.detached:
		case <-d.ctx.Done():
			return
		}
		for pause := attachFirst; !d.attachOnce(); pause = min(2*pause, attachLongest) {
			timer := d.options.Clock.NewTimer(pause)
			select {
			case <-timer.C():
			case <-d.ctx.Done():
				timer.Stop()
				return
			}
		}
	}
}

// attachOnce reports whether every hold has its advisory lock, and every waiter is told what it has to know.
func (d *Driver) attachOnce() bool {
	var without []*hold
	d.mu.Lock()
	for _, h := range d.held {
		if h.session == nil {
			without = append(without, h)
		}
	}
	deaf := len(d.subs) > 0
	d.mu.Unlock()
	all := true
	if deaf {
		_, err := d.mainSession(d.ctx, "attach")
		all = err == nil
	}
	for _, h := range without {
		done := false
		err := d.request(d.ctx, "attach", nil, func(ctx context.Context, s *session, conn *pgx.Conn) (err error) {
			done, err = d.attach(ctx, h, s, conn)
			return err
		})
		all = all && err == nil && done
	}
	return all
}

// attach takes the advisory lock of a hold, unless another acquisition is in its row: then the lock is lost.
func (d *Driver) attach(ctx context.Context, h *hold, s *session, conn *pgx.Conn) (done bool, err error) {
	if !d.isDetached(h.id) {
		return true, nil
	}
	var id string
	var epoch, sequence, left int64
	var owner string
	var since time.Time
	err = conn.QueryRow(ctx, d.sql.inspect, []byte(h.key.Prefix), []byte(h.key.Name)).Scan(&id, &owner, &epoch, &sequence, &since, &left)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && id != h.id:
		if d.forget(h.id, s) != nil {
			h.onLost(driver.ErrNotHolder)
		}
		return true, nil
	case err != nil:
		return false, err
	}
	var advisory bool
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1::bigint)", h.hash).Scan(&advisory); err != nil || !advisory {
		return false, err
	}
	if d.attached(h, s) {
		return true, nil
	}
	return true, unlock(ctx, conn, h.hash)
}

// attached notes that s has the advisory lock of h, unless h is over or has it already.
func (d *Driver) attached(h *hold, s *session) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held[h.id] != h || h.session != nil {
		return false
	}
	h.session = s
	return true
}
