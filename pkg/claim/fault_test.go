// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstead/lockstead/pkg/claim"
	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

// behindProxy is a pool that reaches the database through a proxy. A statement is one request, so that the server has applied it when its answer is
// disturbed.
func (b *bench) behindProxy(t *testing.T, url string, target *pgtest.Server) (*pgxpool.Pool, *faultproxy.Proxy) {
	t.Helper()
	proxy := faultproxy.New(t, target.Addr())
	config, err := pgxpool.ParseConfig(pgtest.At(t, url, proxy.Addr()))
	b.must(err)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(b.ctx, config)
	b.must(err)
	t.Cleanup(pool.Close)
	b.must(pool.Ping(b.ctx))
	return pool, proxy
}

func TestRowsOfALostAnswerComeBackWhenTheirClaimExpires(t *testing.T) {
	b, url := openJobs(t)
	b.exec(`INSERT INTO jobs (id) VALUES (2), (3)`)
	pool, proxy := b.behindProxy(t, url, server)
	disturb := sync.OnceFunc(proxy.DropResponses)
	db := &watched{Querier: claim.Pgx(pool), before: func(_ context.Context, query string) error {
		if isClaim(query) {
			disturb()
		}
		return nil
	}}
	table, err := claim.New[job](db, claim.Relation{Name: "jobs", Key: []string{"id"}}, nil)
	b.must(err)
	var mu sync.Mutex
	started := make(map[int64]int)
	done := make(chan struct{})
	lost := sync.OnceFunc(func() {
		if n := b.number(`SELECT count(*) FROM jobs WHERE attempts = 1 AND fence = 1 AND locked_until > now()`); n != 3 {
			t.Errorf("the server gave %d rows to the claim whose answer was lost, want 3", n)
		}
		b.claim(b.table(nil), 3, 0)
		mu.Lock()
		if len(started) != 0 {
			t.Errorf("handlers run on %v without a claim", started)
		}
		mu.Unlock()
		proxy.Heal()
		b.expire()
	})
	stop := b.start(table, func(_ context.Context, c *claim.Claim[job]) error {
		mu.Lock()
		defer mu.Unlock()
		if c.Attempt() != 2 || c.Fence() != 2 {
			t.Errorf("row %d has attempt %d and fence %d, want 2 and 2", c.Row().ID, c.Attempt(), c.Fence())
		}
		if started[c.Row().ID]++; len(started) == 3 {
			close(done)
		}
		return nil
	}, &claim.WorkerOptions[job]{
		PollInterval: 10 * time.Millisecond,
		Report: func(_ context.Context, _ *claim.Claim[job], err error) {
			if fault, ok := errors.AsType[*claim.StoreError](err); !ok || fault.Op != "claim" {
				t.Errorf("reported %v, want a StoreError of the claim", err)
			}
			lost()
		},
	})
	await(b, "the rows", done)
	stop()
	if n := b.number(`SELECT count(*) FROM jobs WHERE run_at IS NULL AND fence = 2`); n != 3 {
		t.Errorf("%d rows were completed by their second claim, want 3", n)
	}
	for id, times := range started {
		if times != 1 {
			t.Errorf("row %d ran %d times", id, times)
		}
	}
}

func TestAClaimWhoseContextEndsHoldsNothing(t *testing.T) {
	b, url := openJobs(t)
	pool, proxy := b.behindProxy(t, url, server)
	table, err := claim.New[job](claim.Pgx(pool), claim.Relation{Name: "jobs", Key: []string{"id"}}, nil)
	b.must(err)
	proxy.HoldResponses()
	defer proxy.Heal()
	ctx, cancel := context.WithCancelCause(b.ctx)
	answer := make(chan error, 1)
	go func() {
		claims, err := table.Claim(ctx, 1, time.Minute)
		if len(claims) > 0 {
			t.Error("the caller holds a row")
		}
		answer <- err
	}()
	for b.number(`SELECT count(*) FROM jobs WHERE lock_token IS NOT NULL`) == 0 {
		b.must(b.ctx.Err())
	}
	cancel(errors.New("the caller left"))
	err = await(b, "the claim", answer)
	if !errors.As(err, new(*claim.StoreError)) || !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want a StoreError that tells the end of the context", err)
	}
	b.claim(b.table(nil), 1, 0)
	b.expire()
	if c := b.claim(b.table(nil), 1, 1)[0]; c.Attempt() != 2 {
		t.Errorf("attempt %d, want 2", c.Attempt())
	}
}

func TestTheContextOfTheCallEndsNoClaim(t *testing.T) {
	b, _ := openJobs(t)
	ctx, cancel := context.WithCancel(b.ctx)
	claims, err := b.table(nil).Claim(ctx, 1, time.Minute)
	b.must(err)
	cancel()
	if claims[0].Context().Err() != nil || !claims[0].Valid() {
		t.Error("the claim ended with the context of the call")
	}
	// A caller that was cancelled still gives its rows back.
	b.must(claims[0].Release(ctx))
	b.claim(b.table(nil), 1, 1)
}

func TestRowsThatAreClaimedDuringShutdownAreGivenBack(t *testing.T) {
	b, _ := openJobs(t)
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	db := &watched{Querier: b.db, after: func(query string) {
		if isClaim(query) {
			stop()
		}
	}}
	table, err := claim.New[job](db, claim.Relation{Name: "jobs", Key: []string{"id"}}, nil)
	b.must(err)
	worker, err := claim.NewWorker(table, func(context.Context, *claim.Claim[job]) error {
		t.Error("a handler started after the end of Run's context")
		return nil
	}, nil)
	b.must(err)
	b.must(worker.Run(ctx))
	if n := b.number(`SELECT count(*) FROM jobs WHERE attempts = 0 AND fence = 1 AND lock_token IS NULL AND run_at <= now()`); n != 1 {
		t.Error("the row was not given back as it was")
	}
}

func TestAWorkerThatIsStartedWithoutAServerWaitsForIt(t *testing.T) {
	own := pgtest.Start(t, &pgtest.Options{CrashSafe: true})
	b := newBench(t, own.URL("postgres"))
	b.db = claim.Pgx(b.pool)
	b.createJobs()
	b.exec(`INSERT INTO jobs (id) VALUES (1)`)
	own.Kill(t)
	away, done := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(away) })
	stop := b.start(b.table(nil), func(context.Context, *claim.Claim[job]) error { close(done); return nil }, &claim.WorkerOptions[job]{
		// A worker that polls rarely does not wait that long for the server.
		PollInterval: time.Hour,
		Report: func(_ context.Context, _ *claim.Claim[job], err error) {
			if !errors.As(err, new(*claim.StoreError)) {
				t.Errorf("reported %v, want a StoreError", err)
			}
			once()
		},
	})
	await(b, "the report", away)
	own.Run(t)
	await(b, "the row", done)
	stop()
	if n := b.number(`SELECT count(*) FROM jobs WHERE run_at IS NULL`); n != 1 {
		t.Error("the row is not completed")
	}
}

// A worker that only wakes up by notification has to find what was inserted while nobody listened.
func TestNoWakeUpIsLostWhileTheListenerReconnects(t *testing.T) {
	for name, interrupt := range map[string]func(*bench, *pgtest.Server){
		"its session is terminated": func(b *bench, _ *pgtest.Server) {
			if b.number(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`) != 1 {
				b.t.Error("nobody listens")
			}
		},
		"the server restarts": func(b *bench, s *pgtest.Server) {
			s.Kill(b.t)
			s.Run(b.t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			own := pgtest.Start(t, &pgtest.Options{CrashSafe: true})
			b := newBench(t, own.URL("postgres"))
			b.db = claim.Pgx(b.pool)
			b.createJobs()
			// Each connection of the listener is one receive, so the test decides when there is one.
			connecting := make(chan struct{})
			wake, err := claim.Listen(func(ctx context.Context) (*pgx.Conn, error) {
				select {
				case <-connecting:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return pgx.Connect(ctx, own.URL("postgres"))
			}, "jobs", &claim.ListenOptions{RetryInterval: time.Millisecond})
			b.must(err)
			woken, handled := make(chan struct{}, 10), make(chan int64, 10)
			idle := make(chan struct{}, 10)
			db := &watched{Querier: b.db, after: func(query string) {
				if !isClaim(query) {
					return
				}
				select {
				case idle <- struct{}{}:
				default: // Nobody waits any more.
				}
			}}
			table, err := claim.New[job](db, claim.Relation{Name: "jobs", Key: []string{"id"}}, nil)
			b.must(err)
			stop := b.start(table, func(_ context.Context, c *claim.Claim[job]) error {
				handled <- c.Row().ID
				return nil
			}, &claim.WorkerOptions[job]{
				PollInterval: time.Hour,
				Wake:         func(ctx context.Context, signal func()) { wake(ctx, func() { signal(); woken <- struct{}{} }) },
			})
			await(b, "the first look", idle)
			connecting <- struct{}{}
			await(b, "the first LISTEN", woken)
			await(b, "the look after it", idle)
			interrupt(b, own)
			conn, err := pgx.Connect(b.ctx, own.URL("postgres"))
			b.must(err)
			defer func() { _ = conn.Close(context.Background()) }()
			_, err = conn.Exec(b.ctx, `INSERT INTO jobs (id) VALUES (7)`)
			b.must(err)
			b.must(claim.Notify(b.ctx, claim.Pgx(conn), "jobs"))
			select {
			case id := <-handled:
				t.Fatalf("row %d was found without a wake-up: the test shows nothing", id)
			default:
			}
			connecting <- struct{}{}
			if id := await(b, "the row of the gap", handled); id != 7 {
				t.Errorf("row %d", id)
			}
			stop()
		})
	}
}
