// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Driver locks in one PostgreSQL database. It is safe for concurrent use. It opens connections of its own, since a lock belongs to a session, and
// keeps up to Options.MaxSessions of them.
type Driver struct {
	config  *pgx.ConnConfig
	options Options
	sql     statements

	// ctx ends with the driver.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	// opening is held by whoever opens the main session.
	opening chan struct{}
	// detached has a value when a hold has no advisory lock.
	detached chan struct{}
	// unsafe says that it has been logged that the server may forget.
	unsafe atomic.Bool

	mu     sync.Mutex
	closed bool
	// main carries all requests but those of keys that were waited for; nil when there is none.
	main *session
	// waiting is how many sessions there are beside the main one.
	waiting int
	held    map[string]*hold
	subs    map[driver.Key]map[*subscription]struct{}
}

var (
	_ driver.Driver        = (*Driver)(nil)
	_ driver.Waiter        = (*Driver)(nil)
	_ driver.Passer        = (*Driver)(nil)
	_ driver.Lister        = (*Driver)(nil)
	_ driver.ForceReleaser = (*Driver)(nil)
)

// New connects to a PostgreSQL server and checks that it can keep locks. The configuration is from pgx.ParseConfig; it is copied.
//
// Errors: *driver.OptionError; a *driver.StoreError that holds a *PoolerError, a *StandbyError or a *SchemaError, or says that the server cannot be reached or
// refuses the user. Then nothing is left open. No error has the password in it.
func New(ctx context.Context, config *pgx.ConnConfig, options *Options) (*Driver, error) {
	if config == nil {
		return nil, refuse("config", "is nil: give what pgx.ParseConfig returns")
	}
	o, err := options.resolve()
	if err != nil {
		return nil, err
	}
	d := &Driver{
		config: config.Copy(), options: o, sql: newStatements(o.Schema),
		opening: make(chan struct{}, 1), detached: make(chan struct{}, 1),
		held: make(map[string]*hold), subs: make(map[driver.Key]map[*subscription]struct{}),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	if _, err := d.mainSession(ctx, "open"); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.work.Go(d.attachAll)
	d.work.Go(d.sweepAll)
	return d, nil
}

// Limits implements driver.Driver.
func (d *Driver) Limits() driver.Limits {
	return driver.Limits{MinTTL: minTTL, MaxTTL: d.options.MaxTTL, Granularity: granularity}
}

// Close ends the sessions and waits until they are gone. Locks that are held stay locked until their TTL has run out.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	for _, h := range d.held {
		h.expiry.Stop()
	}
	d.mu.Unlock()
	d.cancel()
	d.work.Wait()
	return nil
}

// mainSession returns the session of all keys that were not waited for, and opens it if there is none.
func (d *Driver) mainSession(ctx context.Context, op string) (*session, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx, op, driver.ErrUnavailable)
	}
	select {
	case d.opening <- struct{}{}:
		defer func() { <-d.opening }()
	case <-ctx.Done():
		return nil, ended(ctx, op, driver.ErrUnavailable)
	}
	d.mu.Lock()
	s, over := d.main, d.closed
	d.mu.Unlock()
	switch {
	case over:
		return nil, closed(op)
	case s != nil && !s.over():
		return s, nil
	}
	s, err := d.open(ctx, false)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ended(ctx, op, driver.ErrUnavailable)
	case err != nil:
		return nil, explainConnect(op, err)
	}
	d.options.Logger.DebugContext(ctx, "session opened", "pid", s.pid)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.main = s
	// What other processes told while there was no session was missed.
	d.signalAll()
	return s, nil
}

// begin reports whether work of the driver may begin; then work.Done ends it.
func (d *Driver) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.work.Add(1)
	return true
}

// request has run executed on a session, or on the main one where that is nil or over before it began.
func (d *Driver) request(ctx context.Context, op string, on *session, run func(ctx context.Context, s *session, conn *pgx.Conn) error) error {
	return d.requestThen(ctx, op, on, run, func() {})
}

// requestThen calls after when run has ended, or will never begin on a session.
func (d *Driver) requestThen(ctx context.Context, op string, on *session, run func(ctx context.Context, s *session, conn *pgx.Conn) error, after func()) error {
	for {
		s := on
		if s == nil {
			var err error
			if s, err = d.mainSession(ctx, op); err != nil {
				after()
				return err
			}
		}
		sent, err := s.do(ctx, d.options.AttemptTimeout, func(ctx context.Context, conn *pgx.Conn) error { return run(ctx, s, conn) }, after)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errAbandoned):
			return ended(ctx, op, driver.ErrUnknown)
		case !sent && ctx.Err() != nil:
			return ended(ctx, op, driver.ErrUnavailable)
		case !sent && on != nil:
			on = nil
			continue
		}
		return explain(op, sent, err)
	}
}

// grant is the answer to an acquire or a pass.
type grant struct {
	granted, armed, allowed bool
	epoch, token            int64
	owner                   string
	remaining               int64
	// advisory says that the session got the advisory lock with it.
	advisory bool
}

// guarded runs a statement of one row while no other one changes the key.
func (d *Driver) guarded(ctx context.Context, conn *pgx.Conn, hash int64, statement string, args, into []any) error {
	upper, lower := halves(hash)
	batch := &pgx.Batch{}
	batch.Queue(d.sql.guard, upper, lower)
	batch.Queue(statement, args...)
	results := conn.SendBatch(ctx, batch)
	_, guardErr := results.Exec()
	scanErr := guardErr
	if guardErr == nil {
		scanErr = results.QueryRow().Scan(into...)
	}
	// The commit comes with the end of the batch; nothing has happened before.
	if err := results.Close(); err != nil {
		return err
	}
	return scanErr
}

// Acquire makes one attempt: see driver.Driver.
func (d *Driver) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	const op = "acquire"
	key, hash := req.Key, KeyHash(req.Key)
	parked := d.takeParked(key)
	h := &hold{key: key, id: req.ID, hash: hash, onLost: req.OnLost}
	var g grant
	err := d.requestThen(ctx, op, parked.session(), func(ctx context.Context, s *session, conn *pgx.Conn) error {
		var got grant
		mine := parked.session() == s
		err := d.guarded(ctx, conn, hash, d.sql.acquire, []any{
			[]byte(key.Prefix), []byte(key.Name), hash, req.ID, printable(req.Owner), req.TTL.Microseconds(), !mine,
		}, got.fields())
		if err != nil {
			return errors.Join(err, d.giveBack(ctx, conn, got.advisory, hash))
		}
		g = got
		if got.granted {
			switch {
			case mine:
				h.session, h.dedicated = s, true
			case got.advisory:
				h.session = s
			}
			d.hold(h, req.TTL)
			parked.settle(mine)
		}
		return nil
	}, func() { parked.settle(false) })
	if err != nil {
		return driver.Grant{}, d.noRow(op, err)
	}
	return d.decide(op, req, g)
}

func (g *grant) fields() []any {
	return []any{&g.granted, &g.epoch, &g.token, &g.armed, &g.allowed, &g.owner, &g.remaining, &g.advisory}
}

// giveBack frees an advisory lock that a transaction took and did not commit; the end of the transaction does not.
func (d *Driver) giveBack(ctx context.Context, conn *pgx.Conn, advisory bool, hash int64) error {
	if !advisory || conn.IsClosed() {
		return nil
	}
	return unlock(ctx, conn, hash)
}

// noRow tells the missing row of the table epoch from other failures.
func (d *Driver) noRow(op string, err error) error {
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: ReasonNoEpoch, Remedy: remedyEpoch, Lasting: true}
}

// decide turns the answer into an outcome.
func (d *Driver) decide(op string, req driver.AcquireRequest, g grant) (driver.Grant, error) {
	switch {
	case g.granted:
		return driver.Grant{Token: token(g.epoch, g.token), TTL: req.TTL}, nil
	case !g.armed:
		return driver.Grant{}, &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: ReasonNotArmed, Remedy: remedyArming}
	case !g.allowed:
		return driver.Grant{}, &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: ReasonTTLTooLong, Remedy: remedyTTL, Lasting: true}
	case op == "pass":
		return driver.Grant{}, fmt.Errorf("%s of lock %q: %w", op, req.Key.Name, driver.ErrNotHolder)
	}
	d.rearm(req.Key)
	return driver.Grant{}, &driver.HeldError{Key: req.Key.Name, Owner: g.owner, Remaining: max(time.Duration(g.remaining)*time.Microsecond, 0)}
}

// Pass gives a held key to another acquisition, in the session that holds it: see driver.Passer.
func (d *Driver) Pass(ctx context.Context, req driver.PassRequest) (driver.Grant, error) {
	const op = "pass"
	key, to, hash := req.To.Key, req.To, KeyHash(req.To.Key)
	var g grant
	err := d.request(ctx, op, d.sessionOf(req.From), func(ctx context.Context, _ *session, conn *pgx.Conn) error {
		var got grant
		err := d.guarded(ctx, conn, hash, d.sql.pass, []any{
			[]byte(key.Prefix), []byte(key.Name), to.ID, printable(to.Owner), to.TTL.Microseconds(), req.From,
		}, got.fields())
		if err != nil {
			return err
		}
		g = got
		if got.granted {
			d.passHold(req.From, &hold{key: key, id: to.ID, hash: hash, onLost: to.OnLost}, to.TTL)
		}
		return nil
	})
	if err != nil {
		return driver.Grant{}, d.noRow(op, err)
	}
	return d.decide(op, to, g)
}

// Renew sets the time that is left: see driver.Driver. It also takes the advisory lock back where the session that had it broke.
func (d *Driver) Renew(ctx context.Context, req driver.RenewRequest) (driver.Renewal, error) {
	const op = "renew"
	key, hash := req.Key, KeyHash(req.Key)
	var renewed, allowed bool
	err := d.request(ctx, op, d.sessionOf(req.ID), func(ctx context.Context, s *session, conn *pgx.Conn) error {
		var ok, may, advisory bool
		var withinLimit *bool
		err := conn.QueryRow(ctx, d.sql.renew, []byte(key.Prefix), []byte(key.Name), req.ID, req.TTL.Microseconds(), hash, d.isDetached(req.ID)).Scan(&ok, &withinLimit, &advisory)
		if err != nil {
			return errors.Join(err, d.giveBack(ctx, conn, advisory, hash))
		}
		may = withinLimit != nil && *withinLimit
		renewed, allowed = ok, may
		switch {
		case ok && !d.renewHold(req.ID, req.TTL, s, advisory):
			return d.giveBack(ctx, conn, advisory, hash)
		case !ok && may:
			return d.letGo(ctx, req.ID, s, conn)
		}
		return nil
	})
	switch {
	case err != nil:
		return driver.Renewal{}, err
	case renewed:
		return driver.Renewal{TTL: req.TTL}, nil
	case !allowed:
		return driver.Renewal{}, &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: ReasonTTLTooLong, Remedy: remedyTTL, Lasting: true}
	}
	return driver.Renewal{}, fmt.Errorf("%s of lock %q: %w", op, key.Name, driver.ErrNotHolder)
}

// Release frees the key: see driver.Driver.
func (d *Driver) Release(ctx context.Context, req driver.ReleaseRequest) error {
	const op = "release"
	key, hash := req.Key, KeyHash(req.Key)
	var released bool
	err := d.request(ctx, op, d.sessionOf(req.ID), func(ctx context.Context, s *session, conn *pgx.Conn) error {
		var was, told bool
		advisory := d.leave(req.ID, s)
		err := d.guarded(ctx, conn, hash, d.sql.release, []any{[]byte(key.Prefix), []byte(key.Name), req.ID, hash, advisory}, []any{&was, &told})
		if err != nil {
			d.stay(req.ID)
			return err
		}
		released = was
		d.forget(req.ID, s)
		return nil
	})
	if err != nil {
		return err
	}
	if !released {
		return fmt.Errorf("%s of lock %q: %w", op, key.Name, driver.ErrNotHolder)
	}
	return nil
}

func token(epoch, sequence int64) driver.Token {
	return driver.Token{Epoch: uint64(max(epoch, 0)), Sequence: uint64(max(sequence, 0))} //nolint:gosec // Not negative.
}

// printable is an owner as the type text can keep it.
func printable(owner string) string {
	const replacement = "\uFFFD"
	return strings.ReplaceAll(strings.ToValidUTF8(owner, replacement), "\x00", replacement)
}
