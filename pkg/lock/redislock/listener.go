// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// listener shares one connection among all subscriptions of a driver. The connection is made for the first subscription, made anew when it breaks
// or falls silent, and closed a while after the last subscription.
type listener struct {
	client  redis.UniversalClient
	options Options
	clock   clock.Clock
	log     *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	work    sync.WaitGroup
	// dirty has a value when the wanted channels may differ from the subscribed ones.
	dirty chan struct{}

	mu       sync.Mutex
	closed   bool
	running  bool
	channels map[string]*channel
	session  *session
}

// channel is what is wanted of one channel. It is guarded by listener.mu.
type channel struct {
	subscriptions map[*subscription]struct{}
	// confirmed says that the server has the subscription on the present connection.
	confirmed bool
}

// session is what was sent over one connection. It is guarded by listener.mu.
type session struct {
	sent map[string]struct{}
	// unconfirmed counts the SUBSCRIBEs of a channel without an answer: after a quick end and new start of a subscription the
	// answer to the first one does not confirm the second.
	unconfirmed map[string]int
}

// subscription is a driver.Subscription.
type subscription struct {
	listener *listener
	channel  string
	wake     chan struct{}
	// result has a value when the subscription was confirmed or has failed, once.
	result chan error
	// pending is guarded by listener.mu.
	pending bool
}

const (
	firstReconnect   = 50 * time.Millisecond
	longestReconnect = time.Second
)

var (
	errSilent  = errors.New("the connection of the subscriptions is silent")
	errNoReply = errors.New("the subscription was not confirmed in time")
)

func newListener(client redis.UniversalClient, o Options) *listener {
	l := &listener{
		client: client, options: o, clock: o.Clock, log: o.Logger,
		dirty: make(chan struct{}, 1), channels: make(map[string]*channel),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

func (l *listener) subscribe(ctx context.Context, name string) (*subscription, error) {
	s := &subscription{listener: l, channel: name, wake: make(chan struct{}, 1), result: make(chan error, 1), pending: true}
	if err := l.add(s); err != nil {
		return nil, err
	}
	select {
	case err := <-s.result:
		if err != nil {
			return nil, err
		}
		return s, nil
	case <-ctx.Done():
		s.Close()
		return nil, errors.Join(errNoReply, ctx.Err())
	}
}

func (l *listener) add(s *subscription) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return redis.ErrClosed
	}
	c := l.channels[s.channel]
	if c == nil {
		c = &channel{subscriptions: make(map[*subscription]struct{}), confirmed: l.session.has(s.channel)}
		l.channels[s.channel] = c
	}
	c.subscriptions[s] = struct{}{}
	if c.confirmed {
		s.settle(nil)
	}
	if !l.running {
		l.running = true
		l.work.Go(l.run)
	}
	l.touch()
	return nil
}

// has reports whether the server has the subscription, from before its last one ended.
func (s *session) has(name string) bool {
	if s == nil {
		return false
	}
	_, sent := s.sent[name]
	return sent && s.unconfirmed[name] == 0
}

// settle tells the subscriber. It is called with listener.mu held.
func (s *subscription) settle(err error) {
	if s.pending {
		s.pending = false
		s.result <- err
	}
}

// Wake is driver.Subscription's.
func (s *subscription) Wake() <-chan struct{} { return s.wake }

// Close ends the subscription.
func (s *subscription) Close() {
	l := s.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.channels[s.channel]
	if c == nil {
		return
	}
	delete(c.subscriptions, s)
	if len(c.subscriptions) == 0 {
		delete(l.channels, s.channel)
		l.touch()
	}
}

func (s *subscription) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (l *listener) touch() {
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.work.Wait()
	l.interrupt(redis.ErrClosed)
}

// run keeps a connection as long as somebody subscribes.
func (l *listener) run() {
	pause := firstReconnect
	for {
		confirmed, err := l.connection()
		if err == nil {
			return
		}
		l.log.DebugContext(l.ctx, "connection of the lock notifications was interrupted", "error", err)
		if l.interrupt(err); l.stopIfIdle() {
			return
		}
		if confirmed {
			pause = firstReconnect
		}
		timer := l.clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-l.ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, longestReconnect)
	}
}

// stopIfIdle reports that nobody subscribes any more; the next subscription then starts anew.
func (l *listener) stopIfIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.channels) > 0 {
		return false
	}
	l.running, l.session = false, nil
	return true
}

// interrupt forgets what was confirmed, and fails the subscriptions that never were; the others go on, and are woken when they
// are confirmed again.
func (l *listener) interrupt(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = nil
	for name, c := range l.channels {
		c.confirmed = false
		for s := range c.subscriptions {
			if s.pending {
				s.settle(err)
				delete(c.subscriptions, s)
			}
		}
		if len(c.subscriptions) == 0 {
			delete(l.channels, name)
		}
	}
}

// connection serves the subscriptions over one connection until it fails, or ends without an error when it has been idle for long. It
// reports whether anything was confirmed.
func (l *listener) connection() (confirmed bool, err error) {
	l.mu.Lock()
	s := &session{sent: make(map[string]struct{}), unconfirmed: make(map[string]int)}
	l.session = s
	l.mu.Unlock()
	pubsub := l.client.Subscribe(l.ctx)
	var reader sync.WaitGroup
	defer func() {
		_ = pubsub.Close()
		reader.Wait()
	}()
	broken := make(chan error, 1)
	reading := false
	for {
		add, remove := l.difference(s)
		if err := l.send(pubsub, add, remove); err != nil {
			return confirmed, err
		}
		if !reading && len(add) > 0 {
			reading = true
			reader.Go(func() { broken <- l.read(pubsub, s) })
		}
		idle, stop := l.idleTimer()
		select {
		case <-l.dirty:
			stop()
		case err := <-broken:
			stop()
			l.mu.Lock()
			confirmed = len(s.sent) > len(s.unconfirmed)
			l.mu.Unlock()
			return confirmed, err
		case <-idle:
			if l.stopIfIdle() {
				return true, nil
			}
		case <-l.ctx.Done():
			stop()
			return true, l.ctx.Err()
		}
	}
}

// idleTimer runs when nobody subscribes.
func (l *listener) idleTimer() (fired <-chan time.Time, stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.channels) > 0 {
		return nil, func() {}
	}
	timer := l.clock.NewTimer(l.options.SubscriptionIdle)
	return timer.C(), func() { timer.Stop() }
}

// difference tells what to send so that the wanted channels are subscribed and no others, and notes it as sent.
func (l *listener) difference(s *session) (add, remove []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.channels {
		if _, sent := s.sent[name]; !sent {
			add = append(add, name)
			s.sent[name] = struct{}{}
			s.unconfirmed[name]++
		}
	}
	for name := range s.sent {
		if _, wanted := l.channels[name]; !wanted {
			remove = append(remove, name)
			delete(s.sent, name)
		}
	}
	return add, remove
}

func (l *listener) send(pubsub *redis.PubSub, add, remove []string) error {
	ctx, cancel := context.WithTimeout(l.ctx, l.options.AttemptTimeout)
	defer cancel()
	if len(remove) > 0 {
		if err := pubsub.Unsubscribe(ctx, remove...); err != nil {
			return err
		}
	}
	if len(add) > 0 {
		return pubsub.Subscribe(ctx, add...)
	}
	return nil
}

// read passes on what the server tells until the connection breaks or stays silent.
func (l *listener) read(pubsub *redis.PubSub, s *session) error {
	asked := false
	for {
		message, err := pubsub.ReceiveTimeout(l.ctx, l.options.HealthInterval)
		if timedOut(err) {
			if asked {
				return errSilent
			}
			asked = true
			if err := l.ping(pubsub); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		asked = false
		switch m := message.(type) {
		case *redis.Message:
			l.notify(m.Channel)
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				l.confirm(s, m.Channel)
			}
		}
	}
}

func (l *listener) ping(pubsub *redis.PubSub) error {
	ctx, cancel := context.WithTimeout(l.ctx, l.options.AttemptTimeout)
	defer cancel()
	return pubsub.Ping(ctx)
}

// notify wakes the subscribers of a channel.
func (l *listener) notify(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.channels[name]; c != nil {
		for s := range c.subscriptions {
			s.notify()
		}
	}
}

// confirm tells new subscribers that they are subscribed. Those from before an interruption may have missed something.
func (l *listener) confirm(on *session, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on.unconfirmed[name]--; on.unconfirmed[name] > 0 {
		return
	}
	delete(on.unconfirmed, name)
	c := l.channels[name]
	if c == nil || l.session != on {
		return
	}
	c.confirmed = true
	for s := range c.subscriptions {
		if s.pending {
			s.settle(nil)
		} else {
			s.notify()
		}
	}
}

func timedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
