// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/claim"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

// patience is far longer than any healthy step takes.
const patience = 30 * time.Second

var server *pgtest.Server

func TestMain(m *testing.M) {
	if workAsChild() {
		return
	}
	goleak.VerifyTestMain(pgtest.Shared(m, &server))
}

// watched is a Querier whose statements a test can watch, hold up and refuse: an error of before is the statement's.
type watched struct {
	claim.Querier
	before func(ctx context.Context, query string) error
	after  func(query string)
}

func (w *watched) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if err := w.begin(ctx, query); err != nil {
		return 0, err
	}
	defer w.end(query)
	return w.Querier.Exec(ctx, query, args...)
}

func (w *watched) Query(ctx context.Context, query string, args ...any) (claim.Rows, error) {
	if err := w.begin(ctx, query); err != nil {
		return nil, err
	}
	defer w.end(query)
	return w.Querier.Query(ctx, query, args...)
}

func (w *watched) begin(ctx context.Context, query string) error {
	if w.before == nil {
		return nil
	}
	return w.before(ctx, query)
}

func (w *watched) end(query string) {
	if w.after != nil {
		w.after(query)
	}
}

// isClaim and isExtension tell statements apart by what only they contain.
func isClaim(query string) bool     { return strings.Contains(query, "SKIP LOCKED") }
func isExtension(query string) bool { return strings.Contains(query, "NOWAIT") }

// reports collects what a worker reports.
type reports struct {
	mu  sync.Mutex
	all []error
}

func (r *reports) add(_ context.Context, _ *claim.Claim[job], err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, err)
}

func (r *reports) list() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

// start runs a worker until the returned function is called, which waits for its end.
func (b *bench) start(table *claim.Table[job], handler claim.Handler[job], options *claim.WorkerOptions[job]) (stop func()) {
	b.t.Helper()
	worker, err := claim.NewWorker(table, handler, options)
	b.must(err)
	ctx, cancel := context.WithCancel(b.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := worker.Run(ctx); err != nil {
			b.t.Errorf("the worker ended with %v", err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	b.t.Cleanup(stop)
	return stop
}

// await waits for a channel to be closed or to deliver, and fails the test when that takes too long.
func await[V any](b *bench, what string, c <-chan V) V {
	b.t.Helper()
	select {
	case v := <-c:
		return v
	case <-b.ctx.Done():
		b.t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
