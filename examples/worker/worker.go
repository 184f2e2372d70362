// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// worker competes for its keys until its context ends.
type worker struct {
	client *lock.Client
	config config
	log    *slog.Logger
	// clock stamps the records. CLOCK_BOOTTIME is one clock for all pods of a node, so their records can be compared exactly.
	clock clock.Clock
}

func newWorker(client *lock.Client, config config, log *slog.Logger) *worker {
	return &worker{client: client, config: config, log: log, clock: clock.Boot()}
}

// run competes for all keys at once and returns when the sections under way have ended.
func (w *worker) run(ctx context.Context) {
	w.record(ctx, slog.LevelInfo, "worker started", "event", "ready", "keys", w.config.keys)
	var group sync.WaitGroup
	for _, key := range w.config.keys {
		group.Go(func() { w.compete(ctx, key) })
	}
	group.Wait()
	w.record(context.WithoutCancel(ctx), slog.LevelInfo, "worker stopped", "event", "stopped")
}

// compete does one section of key after another.
func (w *worker) compete(ctx context.Context, key string) {
	for ctx.Err() == nil {
		err := w.client.Do(ctx, key, w.section, &lock.DoOptions{TTL: w.config.ttl, Wait: w.config.wait})
		switch {
		case err == nil, ctx.Err() != nil:
			// Others get a fair chance: whoever has just held the key steps back for a moment.
			w.pause(ctx, 10*time.Millisecond, 60*time.Millisecond)
		case errors.Is(err, lock.ErrHeld):
			// Busy for the whole wait. It is an answer, not a fault.
		case errors.Is(err, lock.ErrLost):
			// The section has logged it.
		default:
			w.record(ctx, slog.LevelWarn, "no lock", "event", "fault", "key", key, "error", err.Error())
			w.pause(ctx, 500*time.Millisecond, 1500*time.Millisecond)
		}
	}
}

// section is the guarded work. Its last record is written while the lock is still held, so two sections of a key whose
// records overlap have overlapped in fact.
func (w *worker) section(ctx context.Context, h *lock.Handle) error {
	w.record(ctx, slog.LevelInfo, "section started", "event", "start", "key", h.Key(), "token", h.Token().String())
	w.pause(ctx, w.config.sectionMin, w.config.sectionMax)
	if err := h.Err(); err != nil {
		w.record(ctx, slog.LevelWarn, "section was cut short", "event", "lost", "key", h.Key(), "token", h.Token().String(), "error", err.Error())
		return nil
	}
	w.record(ctx, slog.LevelInfo, "section ended", "event", "end", "key", h.Key(), "token", h.Token().String())
	return nil
}

// record logs one line with the two times: boot for programs, the handler's own for people.
func (w *worker) record(ctx context.Context, level slog.Level, message string, attributes ...any) {
	now := time.Duration(w.clock.Now())
	w.log.With("boot_ns", now.Nanoseconds()).Log(ctx, level, message, attributes...) //nolint:sloglint // The callers give constants.
}

// pause waits for a random time between shortest and longest, or until ctx ends.
func (w *worker) pause(ctx context.Context, shortest, longest time.Duration) {
	timer := w.clock.NewTimer(shortest + rand.N(longest-shortest+1))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
