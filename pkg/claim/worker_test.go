// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/claim"
)

// run runs two workers until done is closed.
func (b *bench) run(handler claim.Handler[job], options claim.WorkerOptions[job], done <-chan struct{}) {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	var workers sync.WaitGroup
	for range 2 {
		worker, err := claim.NewWorker(b.table(&claim.Options[job]{MaxAttempts: 3}), handler, &options)
		b.must(err)
		workers.Go(func() {
			if err := worker.Run(ctx); err != nil {
				b.t.Error(err)
			}
		})
	}
	select {
	case <-done:
	case <-b.ctx.Done():
		b.t.Error("the workers did not finish")
	}
	stop()
	workers.Wait()
}

func TestTwoWorkersRunEachRowOnce(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		const rows = 60
		b.exec(`CREATE TABLE runs (id bigint, fence bigint, PRIMARY KEY (id, fence))`)
		b.exec(`INSERT INTO jobs (id) SELECT generate_series(1, $1::bigint)`, rows)
		done := make(chan struct{})
		var mu sync.Mutex
		running, finished := map[int64]bool{}, 0
		b.run(func(ctx context.Context, c *claim.Claim[job]) error {
			id := c.Row().ID
			mu.Lock()
			if running[id] {
				t.Errorf("row %d runs twice at the same time", id)
			}
			running[id] = true
			mu.Unlock()
			_, err := b.pool.Exec(ctx, `INSERT INTO runs VALUES ($1, $2)`, id, c.Fence())
			mu.Lock()
			defer mu.Unlock()
			delete(running, id)
			if finished++; finished == rows {
				close(done)
			}
			return err
		}, claim.WorkerOptions[job]{PollInterval: 10 * time.Millisecond}, done)
		if n := b.number(`SELECT count(*) FROM runs WHERE fence = 1`); n != rows {
			t.Errorf("%d rows ran once, want %d", n, rows)
		}
		if n := b.number(`SELECT count(*) FROM jobs WHERE run_at IS NULL AND lock_token IS NULL`); n != rows {
			t.Errorf("%d rows are completed, want %d", n, rows)
		}
	})
}

func TestFailuresAreReportedAndTriedAgainUpToTheMaximum(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		b.exec(`INSERT INTO jobs (id, name) VALUES (1, 'panics'), (2, 'fails')`)
		failure := errors.New("no luck")
		done := make(chan struct{})
		var mu sync.Mutex
		reported := map[string]int{}
		b.run(func(_ context.Context, c *claim.Claim[job]) error {
			if c.Row().Name == "panics" {
				panic(failure)
			}
			return failure
		}, claim.WorkerOptions[job]{
			PollInterval: 10 * time.Millisecond,
			Backoff:      claim.Backoff{Base: time.Millisecond, Max: time.Millisecond},
			Report: func(_ context.Context, c *claim.Claim[job], err error) {
				mu.Lock()
				defer mu.Unlock()
				if !errors.Is(err, failure) {
					t.Errorf("reported %v", err)
				}
				if c.Row().Name == "panics" {
					if p, ok := errors.AsType[*claim.PanicError](err); !ok || !strings.Contains(string(p.Stack), "worker_test.go") {
						t.Errorf("reported %v without the stack of the panic", err)
					}
				}
				reported[c.Row().Name]++
				if reported["panics"]+reported["fails"] == 6 {
					close(done)
				}
			},
		}, done)
		rows, err := b.table(&claim.Options[job]{MaxAttempts: 3}).Exhausted(b.ctx, 10)
		b.must(err)
		if len(rows) != 2 || reported["panics"] != 3 {
			t.Errorf("exhausted are %v, reported %v, want both rows after 3 attempts", rows, reported)
		}
	})
}

func TestANotificationWakesAWorker(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		wake, err := claim.Listen(func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, b.pool.Config().ConnConfig)
		}, "jobs", nil)
		b.must(err)
		listening, done := make(chan struct{}), make(chan struct{})
		go func() {
			<-listening
			tx, commit, _ := b.begin()
			_, err := tx.Exec(b.ctx, `INSERT INTO jobs (id) VALUES (1)`)
			if err := errors.Join(err, claim.Notify(b.ctx, tx, "jobs"), commit()); err != nil {
				t.Error(err)
			}
		}()
		var once sync.Once
		b.run(func(context.Context, *claim.Claim[job]) error { close(done); return nil }, claim.WorkerOptions[job]{
			PollInterval: time.Hour,
			Wake: func(ctx context.Context, signal func()) {
				wake(ctx, func() { signal(); once.Do(func() { close(listening) }) })
			},
		}, done)
	})
}

func TestAtShutdownHandlersAreBrokenOffAfterTheDrainTime(t *testing.T) {
	onBothAdapters(t, func(b *bench) {
		b.exec(`INSERT INTO jobs (id) VALUES (1)`)
		started := make(chan struct{})
		b.run(func(ctx context.Context, _ *claim.Claim[job]) error {
			close(started)
			<-ctx.Done()
			return context.Cause(ctx)
		}, claim.WorkerOptions[job]{DrainTimeout: time.Millisecond, PollInterval: time.Hour}, started)
		if n := b.number(`SELECT count(*) FROM jobs WHERE attempts = 0 AND lock_token IS NULL AND run_at <= now()`); n != 1 {
			t.Error("the row was not given back as it was")
		}
	})
}

func TestBackoffDoublesUpToItsMaximum(t *testing.T) {
	b := claim.Backoff{Base: time.Second, Max: 5 * time.Second}
	for attempt, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 5 * time.Second, math.MaxInt: 5 * time.Second} {
		if got := b.After(attempt, 0); got != want {
			t.Errorf("pause after attempt %d is %s, want %s", attempt, got, want)
		}
	}
	if got := b.After(1, 0.5); got != 900*time.Millisecond {
		t.Errorf("jittered pause is %s, want 900ms", got)
	}
}

func TestBadNamesAreRefused(t *testing.T) {
	for problem, relation := range map[string]claim.Relation{
		"is empty":          {Key: []string{"id"}},
		"contains a quote":  {Name: `jobs"; DROP TABLE x`, Key: []string{"id"}},
		"contains NUL":      {Name: "jobs", Key: []string{"i\x00d"}},
		"has 64 bytes":      {Schema: strings.Repeat("s", 64), Name: "jobs", Key: []string{"id"}},
		"is not in the row": {Name: "jobs", Key: []string{"other"}},
		"is named twice":    {Name: "jobs", Key: []string{"fence"}},
	} {
		_, err := claim.New[job](claim.SQL(nil), relation, nil)
		if !errors.Is(err, claim.ErrInvalid) || !strings.Contains(err.Error(), problem) {
			t.Errorf("error is %v, want one that says: %s", err, problem)
		}
	}
}
