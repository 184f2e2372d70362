// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/test/fault/history"
	"github.com/lockstead/lockstead/test/fault/resource"
)

// worker takes locks, one after another.
type worker struct {
	Config
	locks   *lock.Client
	store   driver.Driver
	guarded *resource.Client
	out     *history.Writer
	clock   clock.Clock
	random  *rand.Rand
}

func (w *worker) oneIn(n int) bool { return w.random.IntN(n) == 0 }

// turn takes a lock, uses it and ends it.
func (w *worker) turn(ctx context.Context) {
	key := w.Keys[w.random.IntN(len(w.Keys))]
	wait := time.Duration(0)
	if w.Patient || w.oneIn(3) {
		wait = w.TTL * 3
	}
	if !w.Patient && w.oneIn(6) {
		w.do(ctx, key, wait)
		return
	}
	since := history.Now()
	h, err := w.locks.TryAcquire(ctx, key, w.TTL, wait)
	w.waited(key, since, wait, err)
	if err != nil {
		w.rest(ctx, err)
		return
	}
	w.use(ctx, h)
	w.end(ctx, h)
	if w.Patient {
		pause(ctx, w.clock, 3*w.Work)
	}
}

func (w *worker) waited(key string, since int64, wait time.Duration, err error) {
	if wait > 0 {
		w.out.Write(history.Record{Kind: history.Wait, Key: key, Since: since, Status: statusOf(err)})
	}
}

// rest keeps a worker whose key is held, or whose store is down, from asking all the time.
func (w *worker) rest(ctx context.Context, err error) {
	least := w.Work / 4
	if !errors.Is(err, lock.ErrHeld) {
		least = w.Work
	}
	pause(ctx, w.clock, least+rand.N(w.Work))
}

// believe writes down until when the handle says that it is valid. The clock of the machine is read first, so what is written is never too long.
func (w *worker) believe(h *lock.Handle) {
	now := history.Now()
	left := h.Remaining()
	if w.Rate != 0 {
		left = time.Duration(float64(left) / w.Rate)
	}
	w.out.Write(history.Record{Kind: history.Hold, At: now, Key: h.Key(), ID: h.ID(), Token: h.Token(), Until: now + int64(left)})
}

// hold writes down the start of a hold and, when it is lost, the moment of that. The function that it returns says that a loss from now on is no surprise.
func (w *worker) hold(h *lock.Handle) (late func()) {
	w.believe(h)
	var expected atomic.Bool
	context.AfterFunc(h.Context(), func() {
		if errors.Is(context.Cause(h.Context()), lock.ErrLost) {
			w.out.Write(history.Record{Kind: history.End, Key: h.Key(), ID: h.ID(), Status: history.Lost, Late: expected.Load()})
		}
	})
	return func() { expected.Store(true) }
}

// use reads the resource, works, and writes it back.
func (w *worker) use(ctx context.Context, h *lock.Handle) {
	late := w.hold(h)
	id := h.ID()
	read, err := w.guarded.Ask(resource.Request{Do: "read", Key: h.Key(), ID: id, Token: h.Token()})
	work := time.Duration(w.random.Int64N(int64(w.Work)))
	if !w.Healthy && w.oneIn(15) {
		late()
		work = w.TTL + w.TTL/4 + time.Duration(w.random.Int64N(int64(w.TTL)))
	}
	pause(ctx, w.clock, work)
	if err == nil {
		// Whoever does not look whether the lock is still valid writes late; the fence must hold him off.
		before := h.Valid()
		_, err = w.guarded.Ask(resource.Request{Do: "write", Key: h.Key(), ID: id, Token: h.Token(), Open: read.Open, Fenced: read.Fenced})
		if err == nil && before && h.Valid() {
			_, _ = w.guarded.Ask(resource.Request{Do: "confirm", Key: h.Key(), ID: id, Token: h.Token()})
		}
	}
	for range w.random.IntN(4) {
		if h.Renew(ctx, 0) != nil {
			break
		}
		w.believe(h)
		pause(ctx, w.clock, time.Duration(w.random.Int64N(int64(w.Work))))
	}
	late()
}

// end releases the lock, or forgets it. Some also send a renewal past the handle, which would not send it when the lock is over, as a delayed packet would.
func (w *worker) end(ctx context.Context, h *lock.Handle) {
	stale := driver.RenewRequest{Key: driver.Key{Prefix: w.Prefix, Name: h.Key()}, ID: h.ID(), TTL: w.TTL}
	if !h.Valid() && w.oneIn(3) {
		_, _ = w.store.Renew(ctx, stale)
	}
	if !w.Healthy && w.oneIn(5) {
		return // It ends by its TTL.
	}
	w.out.Write(history.Record{Kind: history.End, Key: h.Key(), ID: h.ID(), Status: history.Released})
	_ = h.Release(ctx)
	if !w.Healthy && w.oneIn(4) {
		_, _ = w.store.Renew(ctx, stale)
	}
}

// do holds a lock for up to twice its TTL with renewals in the background, and writes down from time to time until when the handle says that it is valid.
func (w *worker) do(ctx context.Context, key string, wait time.Duration) {
	since := history.Now()
	ran := false
	err := w.locks.Do(ctx, key, func(ctx context.Context, h *lock.Handle) error {
		ran = true
		w.waited(key, since, wait, nil)
		w.hold(h)
		for range w.random.IntN(20) {
			if !pause(ctx, w.clock, w.TTL/10) {
				break
			}
			w.believe(h)
		}
		w.out.Write(history.Record{Kind: history.End, Key: key, ID: h.ID(), Status: history.Released})
		return nil
	}, &lock.DoOptions{TTL: w.TTL, Wait: wait})
	if ran {
		return
	}
	w.waited(key, since, wait, err)
	w.rest(ctx, err)
}
