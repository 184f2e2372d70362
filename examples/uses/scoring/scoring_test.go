// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package scoring_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/examples/uses/replicatest"
	"github.com/lockstead/lockstead/examples/uses/scoring"
	"github.com/lockstead/lockstead/pkg/lock"
)

func TestMain(m *testing.M) {
	replicatest.Main(m, map[string]replicatest.Role{"worker": workQueue, "victim": dieWhileScoring})
}

// database keeps the bills of the provider and the scores in a folder that all processes share.
type database struct {
	dir string
	// during is called while the provider scores. Nil does nothing.
	during func(ctx context.Context) error
}

// Score appends to the bill before it answers, as a provider counts a call that it was sent.
func (d database) Score(ctx context.Context, event string) (float64, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, "bill"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := f.WriteString(event + "\n"); err != nil {
		return 0, err
	}
	if d.during != nil {
		if err := d.during(ctx); err != nil {
			return 0, err
		}
	}
	return float64(len(event)), nil
}

func (d database) bill(t *testing.T) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.dir, "bill"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	calls := make(map[string]int)
	for event := range strings.FieldsSeq(string(raw)) {
		calls[event]++
	}
	return calls
}

func (d database) Has(_ context.Context, event string) (bool, error) {
	_, err := os.Stat(filepath.Join(d.dir, "score-"+event))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (d database) Save(_ context.Context, event string, score float64, token lock.Token) error {
	path := filepath.Join(d.dir, "score-"+event)
	if old, err := os.ReadFile(path); err == nil {
		var newest lock.Token
		if err := newest.UnmarshalText(old[:41]); err != nil {
			return err
		}
		if token.Less(newest) {
			return scoring.ErrStale
		}
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%s %g", token, score), 0o600)
}

func newWorker(t *testing.T, locks *lock.Client, db database, options *scoring.Options) *scoring.Worker {
	t.Helper()
	w, err := scoring.New(locks, db, db, options)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

const events = 20

// workQueue is a process that handles every row. Its arguments are the folder and its name.
func workQueue(ctx context.Context, r *replicatest.Replica) error {
	// The provider takes a moment, in which the other rows of the event come.
	db := database{dir: r.Args[0], during: func(context.Context) error {
		replicatest.NewGap().Stay()
		return nil
	}}
	w, err := scoring.New(r.Client, db, db, &scoring.Options{Logger: r.Log})
	if err != nil {
		return err
	}
	r.Say("ready")
	if _, err := r.Await(); err != nil {
		return err
	}
	var group sync.WaitGroup
	failed := make(chan error, events)
	for i := range events {
		group.Go(func() {
			if err := w.Process(ctx, scoring.Row{ID: r.Args[1], Event: fmt.Sprintf("event-%d", i)}); err != nil {
				failed <- err
			}
		})
	}
	group.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Four processes have a row each for every event, and start together: each event is paid once, and no row fails.
func TestProcessesPayOnceForAnEvent(t *testing.T) {
	n, db := replicatest.Start(t), database{dir: t.TempDir()}
	var processes []*replicatest.Process
	for i := range 4 {
		processes = append(processes, n.Process(t, "worker", db.dir, fmt.Sprintf("row-of-%d", i)))
	}
	for _, p := range processes {
		p.Expect(t, "ready")
	}
	for _, p := range processes {
		p.Say(t, "go")
	}
	for _, p := range processes {
		p.Wait(t)
	}
	bill := db.bill(t)
	if len(bill) != events {
		t.Errorf("%d events were scored, want %d", len(bill), events)
	}
	for event, calls := range bill {
		if calls != 1 {
			t.Errorf("%s was paid %d times", event, calls)
		}
	}
}

// The row that comes while the other is being worked on is done at once, says so in the log, and is a success.
func TestTheDuplicateLogsAndReportsSuccess(t *testing.T) {
	ctx, n := replicatest.Context(t), replicatest.Start(t)
	scored := make(chan error, 1)
	inside, finish := make(chan struct{}), make(chan struct{})
	db := database{dir: t.TempDir(), during: func(context.Context) error {
		close(inside)
		<-finish
		return nil
	}}
	first := newWorker(t, n.Open(t), db, nil)
	go func() { scored <- first.Process(ctx, scoring.Row{ID: "row-1", Event: "e"}) }()
	<-inside

	log := replicatest.NewLog()
	second := newWorker(t, n.Open(t), db, &scoring.Options{Logger: log.Logger})
	if err := second.Process(ctx, scoring.Row{ID: "row-2", Event: "e"}); err != nil {
		t.Errorf("the duplicate failed: %v", err)
	}
	if log.Count("being scored for another row", "row=row-2", "event=e") != 1 {
		t.Error("the duplicate logged nothing")
	}
	close(finish)
	if err := <-scored; err != nil {
		t.Errorf("the first row: %v", err)
	}
	if err := second.Process(ctx, scoring.Row{ID: "row-3", Event: "e"}); err != nil {
		t.Errorf("a row of an event that is done: %v", err)
	}
	if calls := db.bill(t)["e"]; calls != 1 || log.Count("has its score", "row=row-3") != 1 {
		t.Errorf("paid %d times, want once, and a line for the third row", calls)
	}
}

// dieWhileScoring is a process that is killed while the provider works.
func dieWhileScoring(ctx context.Context, r *replicatest.Replica) error {
	db := database{dir: r.Args[0], during: func(ctx context.Context) error {
		r.Say("scoring")
		<-ctx.Done()
		return ctx.Err()
	}}
	w, err := scoring.New(r.Client, db, db, &scoring.Options{TTL: killedTTL, Logger: r.Log})
	if err != nil {
		return err
	}
	return w.Process(ctx, scoring.Row{ID: "row-1", Event: "e"})
}

const killedTTL = 3 * time.Second

// A worker dies in the middle. Its lock keeps the event until its TTL has run out, and the row that the queue gives out again after that is
// scored.
func TestAnotherWorkerScoresAfterTheHolderDied(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), database{dir: t.TempDir()}
	victim := n.Process(t, "victim", db.dir)
	victim.Expect(t, "scoring")
	victim.Kill(t)
	locks := n.Open(t)
	// The queue waits for Redelivery, which is longer than the TTL. Here the lock itself tells when it is over.
	h, err := locks.TryAcquire(ctx, lock.Key("scoring", "e"), time.Minute, replicatest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := newWorker(t, locks, db, nil).Process(ctx, scoring.Row{ID: "row-1", Event: "e"}); err != nil {
		t.Fatal(err)
	}
	if has, err := db.Has(ctx, "e"); err != nil || !has {
		t.Errorf("no score: %v", err)
	}
}

// A worker that goes on after it lost its lock is refused by the table, where its successor has written.
func TestTheTableRefusesTheScoreOfAStaleWorker(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), database{dir: t.TempDir()}
	successor := newWorker(t, n.Open(t), db, nil)
	stale := newWorker(t, n.Open(t), database{dir: db.dir, during: func(context.Context) error {
		n.Remove(t, lock.Key("scoring", "e"))
		return successor.Process(ctx, scoring.Row{ID: "row-2", Event: "e"})
	}}, nil)
	if err := stale.Process(ctx, scoring.Row{ID: "row-1", Event: "e"}); !errors.Is(err, scoring.ErrStale) {
		t.Errorf("the stale worker got %v, want ErrStale", err)
	}
}

// With the store of locks down nothing is paid, and the row stays in the queue.
func TestNothingIsPaidWhileTheStoreIsDown(t *testing.T) {
	ctx, n, db := replicatest.Context(t), replicatest.Start(t), database{dir: t.TempDir()}
	w := newWorker(t, n.Open(t), db, nil)
	n.Server.Kill(t)
	if err := w.Process(ctx, scoring.Row{ID: "row-1", Event: "e"}); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if bill := db.bill(t); len(bill) != 0 {
		t.Errorf("paid: %v", bill)
	}
}

func TestARedeliveryWithinTheTTLIsRefused(t *testing.T) {
	_, err := scoring.New(nil, database{}, database{}, &scoring.Options{TTL: time.Minute, Redelivery: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "taken for a duplicate of itself") {
		t.Errorf("got %v", err)
	}
}
