// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstead/lockstead/pkg/claim"
	"github.com/lockstead/lockstead/pkg/internal/child"
)

// childDatabase is the variable that makes a test binary a worker of that database.
const childDatabase = "CLAIM_TEST_DATABASE"

// workAsChild is for TestMain. In the process that startChild starts it works on one row, and reports true when it is done.
func workAsChild() bool {
	url, isChild := os.LookupEnv(childDatabase)
	if !isChild {
		return false
	}
	if err := workOn(url); err != nil {
		fmt.Fprintln(os.Stdout, "failed:", err)
	}
	return true
}

// workOn claims rows and tells so. The handler waits to be told to go on, and tells how the completion of its row went.
func workOn(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	table, err := claim.New[job](claim.Pgx(pool), claim.Relation{Name: "jobs", Key: []string{"id"}}, nil)
	if err != nil {
		return err
	}
	worker, err := claim.NewWorker(table, func(ctx context.Context, c *claim.Claim[job]) error {
		defer cancel()
		fmt.Fprintf(os.Stdout, "claimed with fence %d and attempt %d\n", c.Fence(), c.Attempt())
		if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
			return err
		}
		err := c.Complete(context.WithoutCancel(ctx), claim.Pgx(pool))
		fmt.Fprintf(os.Stdout, "lost %t valid %t\n", errors.Is(err, claim.ErrLost), c.Valid())
		return err
	}, nil)
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// startChild starts a worker in a process of its own. said gives what it prints, line by line.
func startChild(t *testing.T, url string) (worker *child.Process, goOn io.Writer, said <-chan string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDatabase+"="+url)
	cmd.Stderr = os.Stderr
	goOn, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, input := io.Pipe()
	cmd.Stdout = input
	worker, err = child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		worker.Kill()
		_ = input.Close()
		for range lines {
			// The reader ends with what was printed.
		}
	})
	return worker, goOn, lines
}

// openJobs is a database with one row that is due.
func openJobs(t *testing.T) (b *bench, url string) {
	t.Helper()
	url = server.Database(t)
	b = newBench(t, url)
	b.db = claim.Pgx(b.pool)
	b.createJobs()
	b.exec(`INSERT INTO jobs (id) VALUES (1)`)
	return b, url
}

func TestTheRowOfAWorkerThatIsKilledIsClaimedAgain(t *testing.T) {
	b, url := openJobs(t)
	worker, _, said := startChild(t, url)
	if line := await(b, "the child's claim", said); line != "claimed with fence 1 and attempt 1" {
		t.Fatalf("the child said %q", line)
	}
	var token string
	b.must(b.pool.QueryRow(b.ctx, `SELECT lock_token::text FROM jobs`).Scan(&token))
	worker.Kill()
	table := b.table(nil)
	// The row waits for the end of its TTL: nobody knows that the worker is dead.
	b.claim(table, 1, 0)
	b.expire()
	c := b.claim(table, 1, 1)[0]
	if c.Attempt() != 2 || c.Fence() != 2 {
		t.Errorf("attempt %d and fence %d, want 2 and 2", c.Attempt(), c.Fence())
	}
	// A statement of the dead worker that arrives late.
	tag, err := b.pool.Exec(b.ctx, `UPDATE jobs SET run_at = NULL, locked_until = NULL, lock_token = NULL WHERE id = 1 AND lock_token = $1`, token)
	b.must(err)
	if tag.RowsAffected() != 0 {
		t.Error("the token of the dead worker completes the row")
	}
	b.must(c.Complete(b.ctx, b.db))
}

func TestAWorkerThatWasFrozenPastItsTTLCompletesNothing(t *testing.T) {
	b, url := openJobs(t)
	worker, goOn, said := startChild(t, url)
	if line := await(b, "the child's claim", said); !strings.HasPrefix(line, "claimed") {
		t.Fatalf("the child said %q", line)
	}
	thaw, err := worker.Freeze()
	b.must(err)
	defer thaw()
	b.expire()
	c := b.claim(b.table(nil), 1, 1)[0]
	_, err = io.WriteString(goOn, "x")
	b.must(err)
	thaw()
	if line := await(b, "the child's completion", said); line != "lost true valid false" {
		t.Errorf("the child said %q", line)
	}
	await(b, "the child's end", worker.Done())
	if !c.Valid() || b.number(`SELECT count(*) FROM jobs WHERE run_at IS NOT NULL AND locked_until > now() AND attempts = 2`) != 1 {
		t.Error("the frozen worker changed the row")
	}
	b.must(c.Extend(b.ctx, time.Minute))
}
