// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// Handler works on a claimed row. ctx is the claim's context, which also ends at the end of the worker's drain time and of MaxRun. When it ends, stop: with
// a *LostError as its cause somebody else may work on the row. nil means done: the worker completes the row, unless the handler did with Complete, Delete,
// RescheduleAt or RescheduleIn. An error gives the row back with a pause. So return the error of a transaction that was rolled back: with nil, the
// row that was to be completed in it would stay until its claim expires. A panic and runtime.Goexit count as errors.
//
// It is called by as many goroutines as WorkerOptions.Concurrency says.
type Handler[T any] func(ctx context.Context, c *Claim[T]) error

// WorkerOptions are what a Worker can be told. The zero value, or nil, is ready to use.
type WorkerOptions[T any] struct {
	// TTL is for how long a row is claimed, from MinTTL to MaxTTL; claims are extended while their handlers run. A row whose worker was killed waits that
	// long. Defaults to 1 min.
	TTL time.Duration
	// Concurrency is how many handlers run at the same time, from 1 to MaxBatch; no more rows than that are claimed. Defaults to 8.
	Concurrency int
	// PollInterval is the pause when no more rows are due, jittered by a tenth. After a fault of the database the pause is at most 1 s. Defaults to 1 s.
	PollInterval time.Duration
	// Wake, if given, is run beside the worker: whenever it calls wake, the worker looks for rows at once. It returns when ctx ends; see Listen.
	Wake func(ctx context.Context, wake func())
	// Backoff is the pause after a failed attempt.
	Backoff Backoff
	// MaxRun is how long one handler may run. Then its context ends with ErrMaxRun and its claim is extended no more, so that the row does not hang
	// with it. Defaults to 1 h.
	MaxRun time.Duration
	// DrainTimeout is how long handlers may go on when Run's context has ended. Then their contexts end with ErrDraining. Defaults to 20 s.
	DrainTimeout time.Duration
	// Report is told what went wrong: what a handler returned, with the cause of its context if that had ended, a *PanicError, a *LostError, a
	// *StoreError. c is nil if it was not about a row. It is called by many goroutines, each of which waits for it. Defaults to none; the Logger gets the same.
	Report func(ctx context.Context, c *Claim[T], err error)
	// Logger gets an Error record for each panic, with its stack, and a Warn record for each other fault. Defaults to the table's.
	Logger *slog.Logger
	// Random gives the jitter, from 0 up to 1. It is called by many goroutines. Defaults to math/rand/v2.
	Random func() float64
}

func (o *WorkerOptions[T]) resolve(table Options[T]) (WorkerOptions[T], error) {
	var r WorkerOptions[T]
	if o != nil {
		r = *o
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{
		{"TTL", &r.TTL, time.Minute},
		{"PollInterval", &r.PollInterval, time.Second},
		{"MaxRun", &r.MaxRun, time.Hour},
		{"DrainTimeout", &r.DrainTimeout, 20 * time.Second},
	} {
		switch {
		case *d.value == 0:
			*d.value = d.usual
		case *d.value < 0:
			return r, &InvalidError{Argument: d.name, Problem: fmt.Sprintf("%s is negative", *d.value)}
		}
	}
	if r.Concurrency == 0 {
		r.Concurrency = 8
	}
	if r.Concurrency < 1 || r.Concurrency > MaxBatch {
		return r, &InvalidError{Argument: "Concurrency", Problem: fmt.Sprintf("%d is not between 1 and %d", r.Concurrency, MaxBatch)}
	}
	if err := checkTTL(r.TTL); err != nil {
		return r, err
	}
	if r.Report == nil {
		r.Report = func(context.Context, *Claim[T], error) {}
	}
	if r.Logger == nil {
		r.Logger = table.Logger
	}
	if r.Random == nil {
		r.Random = rand.Float64
	}
	var err error
	r.Backoff, err = r.Backoff.resolve()
	return r, err
}

// Worker claims rows and runs a handler on each. Any number of workers, in any number of processes, share a table.
type Worker[T any] struct {
	table   *Table[T]
	handler Handler[T]
	options WorkerOptions[T]
	clock   clock.Clock
	// wake and freed tell the loop to look for rows; one that is pending stands for all.
	wake, freed chan struct{}
	// free counts the handlers that may start.
	free chan struct{}
}

// NewWorker makes a Worker, which does nothing until Run. Options out of their range are refused with an *InvalidError.
func NewWorker[T any](table *Table[T], handler Handler[T], options *WorkerOptions[T]) (*Worker[T], error) {
	if table == nil || handler == nil {
		return nil, &InvalidError{Argument: "NewWorker", Problem: "needs a table and a handler"}
	}
	resolved, err := options.resolve(table.options)
	if err != nil {
		return nil, err
	}
	return &Worker[T]{
		table:   table,
		handler: handler,
		options: resolved,
		clock:   table.options.Clock,
		wake:    make(chan struct{}, 1),
		freed:   make(chan struct{}, 1),
		free:    make(chan struct{}, resolved.Concurrency),
	}, nil
}

// Run works until ctx ends; then it claims no more, lets the handlers finish within the drain time, ends their contexts, and returns nil when the
// last has returned: no handler runs after Run. A handler that does not heed its context keeps Run, but not its row, which is extended no more. Rows
// whose handlers were broken off are given back at once, with no attempt counted.
//
// Run starts with Check and returns its *SchemaError. All other faults are reported and tried again. Call it once at a time.
func (w *Worker[T]) Run(ctx context.Context) error {
	if err := w.check(ctx); err != nil {
		return err
	}
	// The handlers outlive ctx by the drain time.
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(ErrEnded)
	var beside, handlers sync.WaitGroup
	if w.options.Wake != nil {
		beside.Go(func() { w.options.Wake(ctx, func() { signal(w.wake) }) })
	}
	w.loop(ctx, work, &handlers)
	drain := w.clock.AfterFunc(w.options.DrainTimeout, func() { stop(ErrDraining) })
	handlers.Wait()
	drain.Stop()
	beside.Wait()
	return nil
}

// check makes sure of the table, waiting for a server that is away.
func (w *Worker[T]) check(ctx context.Context) error {
	for {
		err := w.table.Check(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // Run was ended, which is no fault.
		}
		if err == nil || errors.Is(err, ErrSchema) {
			return err
		}
		w.report(ctx, nil, err)
		w.pause(ctx, w.retryInterval(), nil)
	}
}

func (w *Worker[T]) loop(ctx, work context.Context, handlers *sync.WaitGroup) {
	for ctx.Err() == nil {
		free := cap(w.free) - len(w.free)
		if free == 0 {
			select {
			case <-w.freed:
			case <-ctx.Done():
			}
			continue
		}
		// A claim that is under way is answered also at shutdown: broken off, it would leave rows claimed by nobody until they expire.
		claims, err := w.table.Claim(work, free, w.options.TTL)
		if err != nil {
			w.report(ctx, nil, err)
		}
		if ctx.Err() != nil {
			w.giveBack(work, claims)
			return
		}
		for _, c := range claims {
			w.free <- struct{}{}
			handlers.Go(func() {
				defer func() {
					<-w.free
					signal(w.freed)
				}()
				w.work(work, c)
			})
		}
		switch {
		case len(claims) == free:
			// There may be more.
		case err != nil:
			w.pause(ctx, w.retryInterval(), nil)
		default:
			w.pause(ctx, w.options.PollInterval, w.wake)
		}
	}
}

// giveBack releases rows that no handler is started for any more.
func (w *Worker[T]) giveBack(ctx context.Context, claims []*Claim[T]) {
	for _, c := range claims {
		if err := c.Release(ctx); err != nil {
			w.report(ctx, c, err)
		}
	}
}

// retryInterval is the pause after a fault of the database. A worker that polls rarely was woken for a row, and has to find it soon all the same.
func (w *Worker[T]) retryInterval() time.Duration { return min(w.options.PollInterval, time.Second) }

// pause waits for the interval, less a jitter of up to a tenth, or for a wake-up.
func (w *Worker[T]) pause(ctx context.Context, interval time.Duration, wake <-chan struct{}) {
	timer := w.clock.NewTimer(interval - time.Duration(w.options.Random()*float64(interval/10)))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-wake:
	case <-ctx.Done():
	}
}

func (w *Worker[T]) report(ctx context.Context, c *Claim[T], err error) {
	attrs := []slog.Attr{slog.String("table", w.table.relation.String()), slog.Any("error", err)}
	if c != nil {
		attrs = append(attrs, slog.Any("key", c.key), slog.Int64("fence", c.fence), slog.Int("attempt", c.attempt))
	}
	level := slog.LevelWarn
	if p, ok := errors.AsType[*PanicError](err); ok {
		level = slog.LevelError
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	w.options.Logger.LogAttrs(ctx, level, "work on claimed rows failed", attrs...)
	w.options.Report(ctx, c, err)
}

// signal leaves one wake-up for a receiver that is busy.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
