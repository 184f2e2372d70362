// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstead/lockstead/pkg/claim"
)

// Message is a row of the outbox. The transaction that changes the application's data inserts it.
type Message struct {
	ID   int64  `db:"id"`
	Text string `db:"text"`
}

// Broker is where messages go. It remembers what it got, so that the example can tell.
type Broker struct {
	mu   sync.Mutex
	sent map[int64]int // how often, by message
	by   map[int]int   // how many, by worker
}

// Send takes the message's ID along: a worker that dies between Send and Delete makes another one send the message again, and the receivers
// tell the two by it.
func (b *Broker) Send(worker int, m Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent[m.ID]++
	b.by[worker]++
}

// An outbox: two workers, as in two replicas, empty one table. Each message is sent once, and no transaction is open meanwhile.
func Example_outbox() {
	const messages, workers = 20, 2
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pool, err := pgxpool.New(ctx, server.URL("postgres"))
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	exec := func(statement string, args ...any) {
		if _, err := pool.Exec(ctx, statement, args...); err != nil {
			panic(err)
		}
	}
	table, err := claim.New[Message](claim.Pgx(pool), claim.Relation{Name: "outbox", Key: []string{"id"}}, nil)
	if err != nil {
		panic(err)
	}
	exec(`CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text NOT NULL)`)
	defer exec(`DROP TABLE outbox`)
	exec(table.DDL()) // An application has it in its migrations.
	exec(`INSERT INTO outbox (text) SELECT 'order ' || n || ' was paid' FROM generate_series(1, $1::int) n`, messages)

	broker := &Broker{sent: make(map[int64]int), by: make(map[int]int)}
	run, stop := context.WithCancel(ctx)
	var all, both, running sync.WaitGroup
	all.Add(messages)
	both.Add(workers)
	for number := range workers {
		// The example waits until both workers have a message, so that they do compete.
		meet := sync.OnceFunc(func() { both.Done(); both.Wait() })
		worker, err := claim.NewWorker(table, func(ctx context.Context, c *claim.Claim[Message]) error {
			meet()
			broker.Send(number, c.Row())
			if err := c.Delete(ctx, claim.Pgx(pool)); err != nil {
				return err // It is sent again.
			}
			all.Done()
			return nil
		}, &claim.WorkerOptions[Message]{Concurrency: 1})
		if err != nil {
			panic(err)
		}
		running.Go(func() {
			if err := worker.Run(run); err != nil {
				panic(err)
			}
		})
	}
	all.Wait()
	stop()
	running.Wait()

	var left, once int
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&left); err != nil {
		panic(err)
	}
	for _, times := range broker.sent {
		if times == 1 {
			once++
		}
	}
	fmt.Printf("%d workers sent %d messages, %d of them once; %d are left\n", len(broker.by), len(broker.sent), once, left)
	// Output: 2 workers sent 20 messages, 20 of them once; 0 are left
}
