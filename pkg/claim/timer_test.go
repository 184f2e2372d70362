// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstead/lockstead/pkg/claim"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// inBubble runs a test in which the time of this process is fake, and moves when all of it waits for time. The server's time is real: to it, all happens at
// once. There is one row, with the ID 1.
func inBubble(t *testing.T, test func(b *bench, db *watched, table *claim.Table[job])) {
	url := server.Database(t)
	synctest.Test(t, func(t *testing.T) {
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		db := &watched{Querier: claim.Pgx(pool)}
		b := &bench{t: t, ctx: t.Context(), pool: pool, db: db}
		b.createJobs()
		b.exec(`INSERT INTO jobs (id) VALUES (1)`)
		test(b, db, b.table(&claim.Options[job]{Clock: clock.Monotonic()}))
	})
}

func pause(d time.Duration) {
	<-time.NewTimer(d).C
	synctest.Wait()
}

// extensions counts the extensions that are sent, and refuses those that fail tells.
func (w *watched) extensions(fail func(n int) error) *int {
	sent := new(int)
	w.before = func(_ context.Context, query string) error {
		if !isExtension(query) {
			return nil
		}
		*sent++
		return fail(*sent)
	}
	return sent
}

func never(int) error { return nil }

func (b *bench) wantExtensions(got *int, want int, when string) {
	b.t.Helper()
	if *got != want {
		b.t.Errorf("%d extensions %s, want %d", *got, when, want)
	}
}

func TestAClaimIsKeptAtAThirdOfItsTTL(t *testing.T) {
	inBubble(t, func(b *bench, db *watched, table *claim.Table[job]) {
		sent := db.extensions(never)
		c := b.claim(table, 1, 1)[0]
		b.exec(`UPDATE jobs SET locked_until = clock_timestamp() + interval '1 s'`)
		stop := c.Keep()
		pause(20*time.Second - 1)
		b.wantExtensions(sent, 0, "before a third of the TTL")
		pause(1)
		b.wantExtensions(sent, 1, "at a third of the TTL")
		if n := b.number(`SELECT count(*) FROM jobs WHERE locked_until > clock_timestamp() + interval '30 s'`); n != 1 {
			t.Error("the row was not extended on the server")
		}
		pause(10 * time.Minute)
		b.wantExtensions(sent, 31, "in 10 min 20 s")
		if !c.Valid() {
			t.Errorf("the claim is kept and over: %v", c.Err())
		}
		stop()
		pause(time.Minute)
		b.wantExtensions(sent, 31, "after the end of Keep")
		if lost, ok := errors.AsType[*claim.LostError](c.Err()); !ok || lost.Reason != claim.LossDeadline {
			t.Errorf("a claim that nobody keeps ended with %v", c.Err())
		}
	})
}

func TestAnExtensionThatFailsIsTriedAgainUntilTheDeadline(t *testing.T) {
	inBubble(t, func(b *bench, db *watched, table *claim.Table[job]) {
		failure := errors.New("connection refused")
		sent := db.extensions(func(n int) error {
			if n == 1 || n > 2 {
				return failure
			}
			return nil
		})
		c := b.claim(table, 1, 1)[0]
		defer c.Keep()()
		pause(20 * time.Second)
		b.wantExtensions(sent, 1, "at a third of the TTL")
		pause(5 * time.Second)
		b.wantExtensions(sent, 2, "a twelfth of the TTL after the failure")
		// 60 s from the success, less 1 %, less a guard of 1 %.
		if left, want := c.Remaining(), 58800*time.Millisecond; left != want {
			t.Errorf("%s remain after the extension, want %s", left, want)
		}
		pause(58800*time.Millisecond - 1)
		// At 20, 25, … 55 s after the success.
		b.wantExtensions(sent, 10, "before the deadline")
		if !c.Valid() {
			t.Error("the claim ended before its deadline")
		}
		pause(1)
		if c.Context().Err() == nil || !errors.Is(context.Cause(c.Context()), claim.ErrLost) {
			t.Errorf("the cause at the deadline is %v", context.Cause(c.Context()))
		}
		pause(time.Minute)
		b.wantExtensions(sent, 10, "after the deadline")
	})
}

func TestAClaimThatIsOverIsNotExtended(t *testing.T) {
	for name, end := range map[string]func(b *bench, c *claim.Claim[job]) error{
		"released":  func(b *bench, c *claim.Claim[job]) error { return c.Release(b.ctx) },
		"completed": func(b *bench, c *claim.Claim[job]) error { return c.Complete(b.ctx, b.db) },
		"deleted":   func(b *bench, c *claim.Claim[job]) error { return c.Delete(b.ctx, b.db) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench, db *watched, table *claim.Table[job]) {
				sent := db.extensions(never)
				c := b.claim(table, 1, 1)[0]
				c.Keep()
				b.must(end(b, c))
				pause(time.Hour)
				b.wantExtensions(sent, 0, "of a claim that is over")
				if !errors.Is(context.Cause(c.Context()), claim.ErrEnded) {
					t.Errorf("cause is %v, want ErrEnded", context.Cause(c.Context()))
				}
			})
		})
	}
}

// runOne runs a worker until its handler has failed once, and returns what was reported.
func (b *bench) runOne(table *claim.Table[job], handler claim.Handler[job], options claim.WorkerOptions[job]) []error {
	b.t.Helper()
	var seen reports
	reported := make(chan struct{}, 10)
	options.Report = func(ctx context.Context, c *claim.Claim[job], err error) {
		seen.add(ctx, c, err)
		reported <- struct{}{}
	}
	stop := b.start(table, handler, &options)
	<-reported
	stop()
	return seen.list()
}

func TestAHandlerIsBrokenOffAtMaxRun(t *testing.T) {
	inBubble(t, func(b *bench, db *watched, table *claim.Table[job]) {
		sent := db.extensions(never)
		const maxRun = 5*time.Minute + 10*time.Second // between two extensions
		begun := time.Now()
		seen := b.runOne(table, func(ctx context.Context, c *claim.Claim[job]) error {
			<-ctx.Done()
			if ran := time.Since(begun); ran != maxRun || !errors.Is(context.Cause(ctx), claim.ErrMaxRun) || !c.Valid() {
				t.Errorf("the context ended after %s with %v, claim valid: %t", ran, context.Cause(ctx), c.Valid())
			}
			b.wantExtensions(sent, 15, "in 5 min 10 s")
			return ctx.Err()
		}, claim.WorkerOptions[job]{MaxRun: maxRun, PollInterval: time.Hour})
		if len(seen) != 1 || !errors.Is(seen[0], context.Canceled) || !errors.Is(seen[0], claim.ErrMaxRun) {
			t.Errorf("reported %v, want what the handler returned and ErrMaxRun", seen)
		}
		if n := b.number(`SELECT count(*) FROM jobs WHERE attempts = 1 AND lock_token IS NULL AND run_at > now()`); n != 1 {
			t.Error("the row was not given back with a pause")
		}
	})
}

func TestAHandlerThatDoesNotHeedMaxRunLosesItsRow(t *testing.T) {
	inBubble(t, func(b *bench, db *watched, table *claim.Table[job]) {
		sent := db.extensions(never)
		seen := b.runOne(table, func(_ context.Context, c *claim.Claim[job]) error {
			<-c.Context().Done()
			b.expire()
			other := b.claim(table, 1, 1)[0]
			if other.Attempt() != 2 {
				t.Errorf("attempt %d of the next claim", other.Attempt())
			}
			return nil // It says that all is well.
		}, claim.WorkerOptions[job]{MaxRun: 30 * time.Second, PollInterval: time.Hour})
		b.wantExtensions(sent, 1, "of a handler that has run for too long")
		// Once: there is nothing to give back, so nothing else fails.
		if len(seen) != 1 || !errors.Is(seen[0], claim.ErrLost) || !errors.Is(seen[0], claim.ErrMaxRun) {
			t.Errorf("reported %v, want one loss, with ErrMaxRun", seen)
		}
		if n := b.number(`SELECT count(*) FROM jobs WHERE attempts = 2 AND locked_until > now()`); n != 1 {
			t.Error("the row of the next claim was changed")
		}
	})
}

func TestAHandlerThatEndsItsGoroutineIsAFailure(t *testing.T) {
	inBubble(t, func(b *bench, _ *watched, table *claim.Table[job]) {
		seen := b.runOne(table, func(context.Context, *claim.Claim[job]) error {
			runtime.Goexit()
			return nil
		}, claim.WorkerOptions[job]{PollInterval: time.Hour})
		p, ok := errors.AsType[*claim.PanicError](errors.Join(seen...))
		if !ok || len(seen) != 1 || p.Value != nil || len(p.Stack) == 0 || p.Error() != "claim: the handler ended its goroutine with runtime.Goexit" {
			t.Errorf("reported %v", seen)
		}
		if n := b.number(`SELECT count(*) FROM jobs WHERE attempts = 1 AND lock_token IS NULL AND run_at > now()`); n != 1 {
			t.Error("the row was not given back with a pause")
		}
	})
}

func TestTheHandlersOwnErrorIsReportedAsItIs(t *testing.T) {
	inBubble(t, func(b *bench, _ *watched, table *claim.Table[job]) {
		failure := errors.New("no luck")
		seen := b.runOne(table, func(context.Context, *claim.Claim[job]) error { return failure }, claim.WorkerOptions[job]{PollInterval: time.Hour})
		if len(seen) != 1 || seen[0] != failure { //nolint:errorlint // It is not to be wrapped.
			t.Errorf("reported %v, want the error itself", seen)
		}
	})
}
