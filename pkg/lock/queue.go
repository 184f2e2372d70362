// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"sync"

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
	// turn has room for the head; the runtime serves goroutines that block on sending in the order in which they came.
	turn chan struct{}
	// released has a value when a handle of this process on the key was released.
	released chan struct{}
	// subscription belongs to the head, and is passed on with the turn.
	subscription driver.Subscription
	// waiters is guarded by queues.mu.
	waiters int
}

func (q *queues) init() { q.byKey = make(map[string]*queue) }

func (q *queues) join(key string) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.byKey[key]
	if line == nil {
		line = &queue{turn: make(chan struct{}, 1), released: make(chan struct{}, 1)}
		q.byKey[key] = line
	}
	line.waiters++
	return line
}

// leave takes one waiter out; the last one ends the subscription. It is called after the turn was given up.
func (q *queues) leave(key string, line *queue) {
	q.mu.Lock()
	line.waiters--
	last := line.waiters == 0
	if last {
		delete(q.byKey, key)
	}
	q.mu.Unlock()
	if last && line.subscription != nil {
		line.subscription.Close()
	}
}

// wake tells the head of the key's queue, if there is one, that this process released the key.
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
