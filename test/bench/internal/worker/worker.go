// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package worker is the other processes of a measurement: this same program, started again, which takes locks as it is told.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/test/bench/internal/lockers"
	"github.com/lockstead/lockstead/test/bench/internal/monotonic"
)

// Variable names the environment variable that makes the program a worker.
const Variable = "LOCKSTEAD_BENCH_WORKER"

// order is one line that a worker reads.
type order struct {
	Op string `json:"op"`
	// Of open.
	Subject string          `json:"subject,omitempty"`
	Servers lockers.Servers `json:"servers,omitzero"`
	// Of lock and herd.
	Key  string        `json:"key,omitempty"`
	Wait time.Duration `json:"wait,omitempty"`
	// Of herd: how many goroutines take the lock how often, and for how long they hold it.
	Goroutines int           `json:"goroutines,omitempty"`
	Times      int           `json:"times,omitempty"`
	Hold       time.Duration `json:"hold,omitempty"`
}

// answer is one line that a worker writes.
type answer struct {
	At    time.Duration   `json:"at,omitempty"`
	Waits []time.Duration `json:"waits,omitempty"`
	Err   string          `json:"err,omitempty"`
}

// Serve is the worker. It ends with its input.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	var w served
	defer w.close()
	for {
		var o order
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		a, err := w.obey(ctx, o)
		if err != nil {
			a.Err = err.Error()
		}
		if err := encoder.Encode(a); err != nil {
			return fmt.Errorf("write an answer: %w", err)
		}
	}
}

type served struct {
	locker  lockers.Locker
	release lockers.Release
}

func (w *served) close() {
	if w.locker != nil {
		w.locker.Close()
	}
}

func (w *served) obey(ctx context.Context, o order) (a answer, err error) {
	switch o.Op {
	case "open":
		subject, err := lockers.Named(o.Subject)
		if err != nil {
			return a, err
		}
		w.locker, err = subject.Open(ctx, o.Servers)
		return a, err
	case "lock":
		w.release, err = w.locker.Acquire(ctx, o.Key, o.Wait)
		a.At = monotonic.Now()
		return a, err
	case "unlock":
		// Before the release: what counts is how long nobody has the lock for.
		a.At = monotonic.Now()
		return a, w.release(ctx)
	case "herd":
		a.Waits, err = herd(ctx, w.locker, o)
		return a, err
	default:
		return a, fmt.Errorf("there is no order %q", o.Op)
	}
}

func herd(ctx context.Context, locker lockers.Locker, o order) ([]time.Duration, error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	var waits []time.Duration
	var failed error
	for range o.Goroutines {
		group.Go(func() {
			for range o.Times {
				asked := monotonic.Now()
				release, err := locker.Acquire(ctx, o.Key, o.Wait)
				waited := monotonic.Now() - asked
				if err == nil {
					timer := clock.Boot().NewTimer(o.Hold)
					<-timer.C()
					err = release(ctx)
				}
				mu.Lock()
				waits = append(waits, waited)
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return waits, failed
}

// Worker is a worker as its starter sees it. It does one thing after another.
type Worker struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	encoder *json.Encoder
	decoder *json.Decoder
}

// Start starts a worker with a connection of its own.
func Start(ctx context.Context, subject string, servers lockers.Servers) (*Worker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), Variable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	w := &Worker{cmd: cmd, in: in, encoder: json.NewEncoder(in), decoder: json.NewDecoder(out)}
	if _, err := w.tell(order{Op: "open", Subject: subject, Servers: servers}); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *Worker) tell(o order) (a answer, err error) {
	if err := w.encoder.Encode(o); err != nil {
		return a, fmt.Errorf("tell a worker to %s: %w", o.Op, err)
	}
	if err := w.decoder.Decode(&a); err != nil {
		return a, fmt.Errorf("wait for a worker to %s: %w", o.Op, err)
	}
	if a.Err != "" {
		return a, fmt.Errorf("a worker was told to %s: %s", o.Op, a.Err)
	}
	return a, nil
}

// Lock takes the key and returns when that was, by monotonic.Now.
func (w *Worker) Lock(key string, wait time.Duration) (time.Duration, error) {
	a, err := w.tell(order{Op: "lock", Key: key, Wait: wait})
	return a.At, err
}

// Unlock gives the key up and returns when that began, by monotonic.Now.
func (w *Worker) Unlock() (time.Duration, error) {
	a, err := w.tell(order{Op: "unlock"})
	return a.At, err
}

// Herd lets goroutines take the key several times each, and returns how long each time took them.
func (w *Worker) Herd(key string, goroutines, times int, hold, wait time.Duration) ([]time.Duration, error) {
	a, err := w.tell(order{Op: "herd", Key: key, Goroutines: goroutines, Times: times, Hold: hold, Wait: wait})
	return a.Waits, err
}

// Close ends the worker.
func (w *Worker) Close() error {
	_ = w.in.Close()
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("a worker ended: %w", err)
	}
	return nil
}
