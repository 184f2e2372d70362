// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstead/lockstead/pkg/claim"
)

// Schedule is something that runs again and again. It has the column of the claim that says when it is due.
type Schedule struct {
	Name  string        `db:"name"`
	Every time.Duration `db:"every"`
	Until time.Time     `db:"until"`
	Due   time.Time     `db:"run_at"`
}

// A scheduler: two workers, as in two replicas, share the rows of a table. Each slot of each row runs once: the run and the next slot are in one
// transaction. The slots here are all in the past, so the workers catch up; a scheduler that skips them counts on from the present instead.
func Example_scheduler() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pool, err := pgxpool.New(ctx, server.URL("postgres"))
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	exec := func(statement string) {
		if _, err := pool.Exec(ctx, statement); err != nil {
			panic(err)
		}
	}
	table, err := claim.New[Schedule](claim.Pgx(pool), claim.Relation{Name: "schedules", Key: []string{"name"}}, nil)
	if err != nil {
		panic(err)
	}
	exec(`CREATE TABLE schedules (name text PRIMARY KEY, every interval NOT NULL, until timestamptz NOT NULL)`)
	defer exec(`DROP TABLE schedules`)
	exec(`CREATE TABLE runs (name text NOT NULL, slot timestamptz NOT NULL)`)
	defer exec(`DROP TABLE runs`)
	exec(table.DDL())
	exec(`INSERT INTO schedules (name, every, until, run_at) VALUES
		('invoices', '2 hours', '2026-01-01 04:00+00', '2026-01-01 00:00+00'),
		('reports', '1 hour', '2026-01-01 02:00+00', '2026-01-01 00:00+00')`)

	run, stop := context.WithCancel(ctx)
	var over, running sync.WaitGroup
	over.Add(2)
	handler := func(ctx context.Context, c *claim.Claim[Schedule]) error {
		schedule := c.Row()
		next := schedule.Due.Add(schedule.Every)
		last := next.After(schedule.Until)
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			settle := func() error { return c.RescheduleAt(ctx, claim.Pgx(tx), next) }
			if last {
				settle = func() error { return c.Complete(ctx, claim.Pgx(tx)) }
			}
			// First: from then on nobody else can claim the row.
			if err := settle(); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO runs VALUES ($1, $2)`, schedule.Name, schedule.Due)
			return err
		})
		if err == nil && last {
			over.Done()
		}
		return err
	}
	for range 2 {
		worker, err := claim.NewWorker(table, handler, &claim.WorkerOptions[Schedule]{PollInterval: 10 * time.Millisecond})
		if err != nil {
			panic(err)
		}
		running.Go(func() {
			if err := worker.Run(run); err != nil {
				panic(err)
			}
		})
	}
	over.Wait()
	stop()
	running.Wait()

	rows, err := pool.Query(ctx, `SELECT name || to_char(slot AT TIME ZONE 'UTC', ' HH24:MI') FROM runs ORDER BY name, slot`)
	runs, failed := pgx.CollectRows(rows, pgx.RowTo[string])
	if err := errors.Join(err, failed); err != nil {
		panic(err)
	}
	for _, slot := range runs {
		fmt.Println(slot)
	}
	// Output:
	// invoices 00:00
	// invoices 02:00
	// invoices 04:00
	// reports 00:00
	// reports 01:00
	// reports 02:00
}
