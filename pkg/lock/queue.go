// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// queues holds a queue for each key that goroutines of this process wait for.
type queues struct {
	mu    sync.Mutex
	byKey map[string]*queue
}

// queue lines up the goroutines of this process that wait for one key: only the head talks to the store, so that a herd
// of waiters costs the store one.
type queue struct {
	// released has a value when a handle of this process on the key was released or lost.
	released chan struct{}
	// subscription belongs to the head, and goes to the next one with the turn.
	subscription driver.Subscription

	// The rest is guarded by queues.mu.

	// waiters are in the order in which they came; the first is the head.
	waiters []*waiter
	// holder is the handle that the last head was granted. While it is valid the next head need not ask the store.
	holder *Handle
	// rest says that this process has had the lock for long enough: the head waits one pause before it asks.
	rest bool
}

// waiter is a goroutine that waits.
type waiter struct {
	// ctx has the values for the handle.
	ctx context.Context
	ttl time.Duration
	// turn is closed when the waiter becomes the head.
	turn chan struct{}
	// passed has what came of a pass to this waiter: a handle, or nil.
	passed chan *Handle

	// state is guarded by queues.mu.
	state waiterState
}

type waiterState int

const (
	// waiterIdle sleeps, so the lock can be passed to it.
	waiterIdle waiterState = iota
	// waiterAsking talks to the store.
	waiterAsking
	// waiterClaimed is being passed the lock.
	waiterClaimed
	// waiterGone has given up.
	waiterGone
)

func (q *queues) init() { q.byKey = make(map[string]*queue) }

func (q *queues) join(ctx context.Context, key string, ttl time.Duration) (*queue, *waiter) {
	w := &waiter{ctx: ctx, ttl: ttl, turn: make(chan struct{}), passed: make(chan *Handle, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.byKey[key]
	if line == nil {
		line = &queue{released: make(chan struct{}, 1)}
		q.byKey[key] = line
	}
	if line.waiters = append(line.waiters, w); len(line.waiters) == 1 {
		close(w.turn)
	}
	return line, w
}

// leave takes a waiter out, with the handle that it was granted or nil, and returns the one that was passed to it and that it has not
// seen. The last waiter ends the subscription.
func (q *queues) leave(key string, line *queue, w *waiter, granted *Handle) *Handle {
	q.mu.Lock()
	w.state = waiterGone
	select {
	case h := <-w.passed:
		if granted == nil {
			granted = h
		}
	default:
	}
	if granted != nil {
		line.holder, line.rest = granted, false
	}
	wasHead := line.waiters[0] == w
	line.waiters = slices.DeleteFunc(line.waiters, func(o *waiter) bool { return o == w })
	last := len(line.waiters) == 0
	switch {
	case last:
		delete(q.byKey, key)
	case wasHead:
		close(line.waiters[0].turn)
	}
	q.mu.Unlock()
	if last && line.subscription != nil {
		line.subscription.Close()
	}
	return granted
}

// holderOf returns the handle that this process was granted last, or nil.
func (q *queues) holderOf(line *queue) *Handle {
	q.mu.Lock()
	defer q.mu.Unlock()
	return line.holder
}

// ask notes that the head talks to the store from now on. It may not while the lock is being passed to it. Rest says that it has to
// wait one pause before.
func (q *queues) ask(line *queue, w *waiter) (may, rest bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.state == waiterClaimed {
		return false, false
	}
	w.state = waiterAsking
	rest, line.rest = line.rest, false
	return true, rest
}

// asked notes that the head is about to sleep.
func (q *queues) asked(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.state == waiterAsking {
		w.state = waiterIdle
	}
}

// claim finds the waiter that the lock can be passed to, which then gets the outcome by deliver. It returns nil if nobody waits, or the head is just
// talking to the store.
func (q *queues) claim(key string) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.byKey[key]
	if line == nil || line.waiters[0].state != waiterIdle {
		return nil
	}
	w := line.waiters[0]
	w.state = waiterClaimed
	return w
}

// deliver hands a waiter what came of the pass to it, nil for nothing. It reports false if the waiter has given up meanwhile.
func (q *queues) deliver(w *waiter, h *Handle) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.state != waiterClaimed {
		return false
	}
	w.state = waiterIdle
	w.passed <- h
	return true
}

// rest makes the head of the key's queue, if there is one, wait a pause before it asks.
func (q *queues) rest(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if line := q.byKey[key]; line != nil {
		line.rest = true
	}
}

// wake tells the head of the key's queue, if there is one, that this process has the key no more.
func (q *queues) wake(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.byKey[key]
	if line == nil {
		return
	}
	select {
	case line.released <- struct{}{}:
	default:
	}
}
