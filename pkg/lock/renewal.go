// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// renewals keeps the handles of a client alive: one timer for all of them. Renewals that fall due close together are sent together, and none
// waits for the answer to another. It is safe for concurrent use.
type renewals struct {
	client  *Client
	batcher driver.BatchRenewer // nil if the store renews one by one
	// slots bound the renewals that are under way one by one.
	slots chan struct{}

	mu    sync.Mutex
	kept  map[*Handle]*renewal
	queue renewalQueue
	timer clock.Timer
	// running counts the batches and single renewals under way; idle is closed when there are none, if somebody waits for that.
	running int
	idle    chan struct{}
}

// renewal is what is known about a handle that is kept. It is guarded by renewals.mu.
type renewal struct {
	handle *Handle
	// earliest and next are when the renewal may and has to be sent.
	earliest, next clock.Instant
	// end is when the handle has been held for its maximum.
	end clock.Instant
	// alone says that the last renewal failed: it is tried again by itself, in case another one of its batch is to blame.
	alone bool
	// index is the place in the queue, -1 while it is under way.
	index int
}

const (
	// maxBatch bounds what is lost together when a connection breaks, and how long a server is busy with one request.
	maxBatch = 128
	// maxSingles bounds the renewals that are under way one by one. One that would have to wait for longer than a twelfth of its TTL goes
	// ahead: hanging renewals of some keys must not cost the others their locks.
	maxSingles = 32
)

func (r *renewals) init(c *Client) {
	r.client = c
	r.batcher, _ = c.driver.(driver.BatchRenewer)
	r.slots = make(chan struct{}, maxSingles)
	r.kept = make(map[*Handle]*renewal)
}

// keep renews h at a third of its TTL until drop, its end, or maxHold.
func (r *renewals) keep(h *Handle, maxHold time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := &renewal{handle: h, end: h.sent.Add(maxHold), index: -1}
	r.kept[h] = k
	r.schedule(k, nil)
}

// drop ends the renewals of h. One that is under way is broken off by the end of h.
func (r *renewals) drop(h *Handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.kept[h]
	delete(r.kept, h)
	if k != nil && k.index >= 0 {
		heap.Remove(&r.queue, k.index)
		r.arm()
	}
}

// schedule sets when k is renewed next, after a renewal that ended with err; r.mu is held.
func (r *renewals) schedule(k *renewal, err error) {
	now := r.client.clock.Now()
	pause := renewPause(k.handle.TTL(), err)
	k.alone = err != nil
	k.earliest, k.next = now.Add(pause-pause/10), now.Add(pause)
	if k.next >= k.end {
		k.earliest, k.next = k.end, k.end
	}
	heap.Push(&r.queue, k)
	r.arm()
}

// arm sets the timer for the renewal that is due first; r.mu is held.
func (r *renewals) arm() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if len(r.queue) > 0 {
		r.timer = r.client.clock.AfterFunc(max(0, r.queue[0].next.Sub(r.client.clock.Now())), r.tick)
	}
}

// tick starts the renewals that are due, and those that may as well be sent with them.
func (r *renewals) tick() {
	r.mu.Lock()
	now := r.client.clock.Now()
	var due, over []*renewal
	for len(r.queue) > 0 && (r.queue[0].next <= now || (len(due) > 0 && r.queue[0].earliest <= now)) {
		k := heap.Pop(&r.queue).(*renewal)
		switch {
		case k.handle.Context().Err() != nil:
			delete(r.kept, k.handle)
		case now >= k.end:
			delete(r.kept, k.handle)
			over = append(over, k)
		default:
			due = append(due, k)
		}
	}
	batches := r.split(due)
	r.running += len(batches)
	r.arm()
	r.mu.Unlock()
	for _, k := range over {
		k.handle.lose(LossMaxHold, fmt.Errorf("held for its maximum of %s", k.end.Sub(k.handle.sent)))
	}
	for _, batch := range batches {
		go r.run(batch)
	}
}

// split makes batches of renewals with TTLs of the same size, since a batch has the time of its shortest TTL.
func (r *renewals) split(due []*renewal) [][]*renewal {
	limit := maxBatch
	if r.batcher == nil {
		limit = 1
	}
	var batches [][]*renewal
	open := make(map[int]int) // place of the batch that is being filled, by the size of the TTL
	for _, k := range due {
		if k.alone {
			batches = append(batches, []*renewal{k})
			continue
		}
		size := bits.Len64(uint64(k.handle.TTL()))
		if place, ok := open[size]; ok && len(batches[place]) < limit {
			batches[place] = append(batches[place], k)
			continue
		}
		open[size] = len(batches)
		batches = append(batches, []*renewal{k})
	}
	return batches
}

// run sends a batch and schedules what comes after. The observers are told when nothing waits for it any more.
func (r *renewals) run(batch []*renewal) {
	for _, report := range r.send(batch) {
		if report.handle != nil {
			report.tell(report.handle.ctx)
		}
	}
}

func (r *renewals) send(batch []*renewal) []renewalReport {
	defer r.ended()
	if len(batch) == 1 {
		defer r.slot(batch[0].handle)()
	}
	if r.batcher != nil {
		return r.together(batch)
	}
	h := batch[0].handle
	report := h.renew(h.ctx, 0)
	r.done(batch[0], report.err)
	return []renewalReport{report}
}

// slot waits for its turn to renew one handle, but not for long, and returns how to end it.
func (r *renewals) slot(h *Handle) (end func()) {
	timer := r.client.clock.NewTimer(clock.RenewalPause(h.TTL(), true))
	defer timer.Stop()
	select {
	case r.slots <- struct{}{}:
		return func() { <-r.slots }
	case <-timer.C():
	case <-h.ctx.Done():
	}
	return func() {}
}

// errBusy is the outcome for a handle that its owner renews at the same time.
var errBusy = errors.New("another renewal of the lock is under way")

func (r *renewals) together(batch []*renewal) []renewalReport {
	c := r.client
	limit := c.options.AttemptTimeout
	sending := make([]*renewal, 0, len(batch))
	attempts := make([]attempt, 0, len(batch))
	requests := make([]driver.RenewRequest, 0, len(batch))
	for _, k := range batch {
		h := k.handle
		if !h.renewing.TryLock() {
			r.done(k, errBusy)
			continue
		}
		a, err := h.prepare(0)
		if err != nil {
			h.renewing.Unlock()
			r.done(k, err)
			continue
		}
		limit = min(limit, a.limit())
		sending, attempts, requests = append(sending, k), append(attempts, a), append(requests, a.request(h))
	}
	if len(sending) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// A handle that ends does not wait for the answer, and when all have ended nobody does.
	var waiting atomic.Int64
	waiting.Store(int64(len(sending)))
	finish := make([]func(), len(sending))
	for i, k := range sending {
		finish[i] = sync.OnceFunc(func() {
			k.handle.renewing.Unlock()
			if waiting.Add(-1) == 0 {
				cancel()
			}
		})
		defer context.AfterFunc(k.handle.ctx, finish[i])()
	}
	reports := make([]renewalReport, len(sending))
	for i, outcome := range r.batcher.RenewBatch(ctx, requests) {
		k := sending[i]
		err := k.handle.settle(attempts[i], outcome.Renewal, tellContexts(context.Background(), "renew", outcome.Err))
		reports[i] = k.handle.report(attempts[i], err)
		finish[i]()
		r.done(k, err)
	}
	return reports
}

// done schedules the next renewal, unless there is to be none.
func (r *renewals) done(k *renewal, err error) {
	h := k.handle
	if err != nil {
		r.client.log.DebugContext(h.ctx, "renewal of a lock failed", "key", h.key, "remaining", h.Remaining(), "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept[h] != k {
		return
	}
	if h.Context().Err() != nil {
		delete(r.kept, h)
		return
	}
	r.schedule(k, err)
}

// ended counts a batch as over.
func (r *renewals) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running--; r.running == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// close waits until no renewal is under way, or ctx ends. The handles that are still kept go on: the work under them may still run.
func (r *renewals) close(ctx context.Context) error {
	r.mu.Lock()
	if r.running == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("lock: renewals are still under way: %w", driver.ContextError(ctx))
	}
}

// renewPause is the time to the next renewal, jittered by a tenth.
func renewPause(ttl time.Duration, err error) time.Duration {
	pause := clock.RenewalPause(ttl, err != nil)
	return pause - pause/20 + rand.N(pause/10+1)
}

// renewalQueue is a heap: what is due first comes first.
type renewalQueue []*renewal

func (q renewalQueue) Len() int           { return len(q) }
func (q renewalQueue) Less(i, j int) bool { return q[i].next < q[j].next }

func (q renewalQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *renewalQueue) Push(x any) {
	k := x.(*renewal)
	k.index = len(*q)
	*q = append(*q, k)
}

func (q *renewalQueue) Pop() any {
	old := *q
	k := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	k.index = -1
	return k
}
