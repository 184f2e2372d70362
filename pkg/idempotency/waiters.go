// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import "sync"

// waiters counts the requests of this process that wait for the lock of a key.
type waiters struct {
	mu     sync.Mutex
	counts map[Key]int
}

func newWaiters() *waiters { return &waiters{counts: map[Key]int{}} }

// enter counts a request unless limit of them wait already. leave ends its count, however often it is called.
func (w *waiters) enter(key Key, limit int) (leave func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts[key] >= limit {
		return nil, false
	}
	w.counts[key]++
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.counts[key]--; w.counts[key] == 0 {
			delete(w.counts, key)
		}
	}), true
}
