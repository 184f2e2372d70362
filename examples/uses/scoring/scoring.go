// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package scoring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Row is an entry of the queue. Two rows may name one event.
type Row struct {
	ID    string
	Event string
}

// Provider scores an event, for money.
type Provider interface {
	Score(ctx context.Context, event string) (float64, error)
}

// Scores is the table of what was scored. All replicas see it.
type Scores interface {
	// Has reports whether event has a score.
	Has(ctx context.Context, event string) (bool, error)
	// Save stores the score unless one with a greater token is there: then it returns ErrStale.
	Save(ctx context.Context, event string, score float64, token lock.Token) error
}

// ErrStale refuses a score of a worker that lost its lock to a newer one.
var ErrStale = errors.New("a newer worker has scored the event")

// Options are what a Worker can be told. The zero value, or nil, is ready to use.
type Options struct {
	// TTL is how long after the death of a worker its event can be scored again. The lock is renewed while the provider works. Defaults to 15 min.
	TTL time.Duration
	// Redelivery is after how long the queue gives out a row again that nobody acknowledged. It must be longer than TTL. Defaults to 20 min.
	Redelivery time.Duration
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// Worker scores the events of a queue. It is safe for concurrent use.
type Worker struct {
	locks    *lock.Client
	provider Provider
	scores   Scores
	ttl      time.Duration
	log      *slog.Logger
}

// New makes a worker.
func New(locks *lock.Client, provider Provider, scores Scores, options *Options) (*Worker, error) {
	o := Options{}
	if options != nil {
		o = *options
	}
	if o.TTL == 0 {
		o.TTL = 15 * time.Minute
	}
	if o.Redelivery == 0 {
		o.Redelivery = 20 * time.Minute
	}
	if o.Redelivery <= o.TTL {
		return nil, fmt.Errorf("scoring: the queue gives a row out again after %s, which must be longer than the lock's %s: "+
			"a row that comes back sooner is taken for a duplicate of itself and dropped", o.Redelivery, o.TTL)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Worker{locks: locks, provider: provider, scores: scores, ttl: o.TTL, log: o.Logger}, nil
}

// Process scores the event of a row, unless that is done or being done. The row may be acknowledged when it returns nil; after an
// error it stays in the queue.
func (w *Worker) Process(ctx context.Context, row Row) error {
	err := w.locks.Do(ctx, lock.Key("scoring", row.Event), func(ctx context.Context, h *lock.Handle) error {
		return w.score(ctx, row, h.Token())
	}, &lock.DoOptions{TTL: w.ttl})
	if errors.Is(err, lock.ErrHeld) {
		w.log.InfoContext(ctx, "event is being scored for another row; nothing to do", "row", row.ID, "event", row.Event)
		return nil
	}
	if err != nil {
		return fmt.Errorf("row %s: %w", row.ID, err)
	}
	return nil
}

// score runs under the lock of the event. ctx ends with the lock, and the call of the provider with ctx.
func (w *Worker) score(ctx context.Context, row Row, token lock.Token) error {
	// The other row may have been done just before.
	done, err := w.scores.Has(ctx, row.Event)
	if err != nil {
		return fmt.Errorf("look up the score of event %s: %w", row.Event, err)
	}
	if done {
		w.log.InfoContext(ctx, "event has its score; nothing to do", "row", row.ID, "event", row.Event)
		return nil
	}
	score, err := w.provider.Score(ctx, row.Event)
	if err != nil {
		return fmt.Errorf("score event %s: %w", row.Event, err)
	}
	if err := w.scores.Save(ctx, row.Event, score, token); err != nil {
		return fmt.Errorf("save the score of event %s: %w", row.Event, err)
	}
	return nil
}
