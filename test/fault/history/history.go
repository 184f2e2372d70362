// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history is what the processes of a fault run write down: one JSON record a line, on one clock (CLOCK_MONOTONIC, which all processes of a
// machine share). A record is written before a request leaves, and another when its answer came, so a process that is killed leaves a request
// without an answer and no gap.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Kind says what a Record tells.
type Kind string

// The kinds of records.
const (
	// Call and Return are a request of the driver to the store and its answer; N joins them.
	Call   Kind = "call"
	Return Kind = "return"
	// Hold says that the process believes to hold Key until Until, End that it does not any more.
	Hold Kind = "hold"
	End  Kind = "end"
	// Wait is a caller that waited for Key from Since to At, and Status how that ended.
	Wait Kind = "wait"
	// Close is the orderly end of a process; Leaked counts the goroutines that it left behind.
	Close Kind = "close"
)

// Op is a request to the store.
type Op string

// The requests.
const (
	Acquire Op = "acquire"
	Renew   Op = "renew"
	Release Op = "release"
	Pass    Op = "pass"
)

// Status is how a request or a hold ended.
type Status string

// The outcomes of requests, as those of package driver, and the ends of holds.
const (
	OK          Status = "ok"
	Held        Status = "held"
	NotHolder   Status = "not-holder"
	Unavailable Status = "unavailable"
	Unknown     Status = "unknown"

	Released  Status = "released"
	Lost      Status = "lost"
	Abandoned Status = "abandoned"
)

// Record is one line.
type Record struct {
	Kind   Kind          `json:"kind"`
	At     int64         `json:"at"`
	N      int64         `json:"n,omitempty"`
	Op     Op            `json:"op,omitempty"`
	Key    string        `json:"key,omitempty"`
	ID     string        `json:"id,omitempty"`
	From   string        `json:"from,omitempty"`
	TTL    time.Duration `json:"ttl,omitempty"`
	Since  int64         `json:"since,omitempty"`
	Until  int64         `json:"until,omitempty"`
	Status Status        `json:"status,omitempty"`
	Token  driver.Token  `json:"token,omitzero"`
	Late   bool          `json:"late,omitempty"`
	Leaked int           `json:"leaked,omitempty"`
	Note   string        `json:"note,omitempty"`
}

// Now is CLOCK_MONOTONIC in nanoseconds.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // Linux has this clock.
	}
	return ts.Nano()
}

// Writer writes records, each with one system call. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	out io.Writer
	n   int64
	err error
}

// NewWriter writes to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write stamps a record, unless it is stamped, and writes it.
func (w *Writer) Write(r Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(r)
}

func (w *Writer) write(r Record) {
	if r.At == 0 {
		r.At = Now()
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = w.out.Write(append(line, '\n'))
	}
	w.err = errors.Join(w.err, err)
}

// Call writes down a request that is about to leave, and returns the function that writes down its answer.
func (w *Writer) Call(r Record) (answered func(Status, driver.Token, string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	r.Kind, r.N = Call, w.n
	w.write(r)
	n := w.n
	return func(status Status, token driver.Token, note string) {
		w.Write(Record{Kind: Return, N: n, Status: status, Token: token, Note: note})
	}
}

// Err is what went wrong while writing.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// ReadFile reads the records of one process. The last line of a process that was killed may be half.
func ReadFile(path string) ([]Record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var records []Record
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: record %d: %w", path, len(records)+1, err)
		}
		records = append(records, r)
	}
}
