// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lockstead/lockstead/internal/testcluster"
)

// console is what the user sees: steps and notes one below the other, and between them who holds what, as a table that is
// drawn anew in place on a terminal, and as a line every two seconds elsewhere.
type console struct {
	file     *os.File
	terminal bool
	started  time.Time
	// drawn is how many lines the table has on the screen now.
	drawn   int
	shown   time.Time
	outcome []result
}

const (
	tableEvery = 100 * time.Millisecond
	lineEvery  = 2 * time.Second
)

func newConsole(file *os.File) *console {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return &console{file: file, terminal: terminal, started: time.Now()}
}

// step announces what comes next.
func (c *console) step(format string, args ...any) {
	c.drawn = 0
	fmt.Fprintf(c.file, "[%5.1fs] %s\n", time.Since(c.started).Seconds(), fmt.Sprintf(format, args...))
}

// note adds to a step.
func (c *console) note(text string) {
	c.drawn = 0
	fmt.Fprintf(c.file, "         %s\n", strings.ReplaceAll(text, "\n", "\n         "))
}

// result keeps what results prints at the very end.
func (c *console) result(r result) { c.outcome = append(c.outcome, r) }

func (c *console) results() {
	for _, r := range c.outcome {
		fmt.Fprintln(c.file, r)
	}
}

// view is a moment of a phase.
type view struct {
	testcluster.View

	backend string
}

// show draws the view, if it is time for it.
func (c *console) show(now time.Time, v view) {
	every := lineEvery
	if c.terminal {
		every = tableEvery
	}
	if now.Sub(c.shown) < every {
		return
	}
	c.shown = now
	if !c.terminal {
		fmt.Fprintf(c.file, "         %s\n", v.line())
		return
	}
	table := v.table()
	if c.drawn > 0 {
		fmt.Fprintf(c.file, "\x1b[%dA\x1b[J", c.drawn)
	}
	fmt.Fprint(c.file, table)
	c.drawn = strings.Count(table, "\n")
}

func (v view) line() string {
	var holders []string
	for _, r := range v.Rows {
		state := ""
		if r.Dead {
			state = " (dead)"
		}
		holders = append(holders, fmt.Sprintf("%s: %s%s", r.Key, r.Pod, state))
	}
	return fmt.Sprintf("%s, %d replicas, %d sections, %d overlaps | %s", v.backend, v.Pods, v.Sections, v.Overlaps, strings.Join(holders, "  "))
}

func (v view) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n  backend %s   replicas %d   sections %d   overlaps %d\n\n", v.backend, v.Pods, v.Sections, v.Overlaps)
	fmt.Fprintf(&b, "  %-10s %-26s %-42s %s\n", "KEY", "HOLDER", "TOKEN", "HELD FOR")
	for _, r := range v.Rows {
		state := ""
		if r.Dead {
			state = "  the holder is dead, waiting for the TTL"
		}
		fmt.Fprintf(&b, "  %-10s %-26s %-42s %.1fs%s\n", r.Key, r.Pod, r.Token, r.Held.Seconds(), state)
	}
	return b.String()
}
