// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Process identifies the first process of a node. Its number alone would not:
// the kernel uses numbers again.
type Process struct {
	PID int `json:"pid"`
	// Start is when the process started, in clock ticks since boot.
	Start string `json:"start"`
	// Boot is the kernel's identity of the boot that Start counts from.
	Boot string `json:"boot"`
}

// Identify describes the running process.
func Identify(pid int) (Process, error) {
	s, err := readStat(pid)
	if err != nil {
		return Process{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Process{}, err
	}
	return Process{PID: pid, Start: s.start, Boot: strings.TrimSpace(string(boot))}, nil
}

// Alive tells whether the process still runs. A zombie does not.
func (p Process) Alive() bool {
	now, err := Identify(p.PID)
	if err != nil || now != p {
		return false
	}
	s, err := readStat(p.PID)
	return err == nil && !s.ended()
}

type stat struct{ state, threads, start string }

// ended tells a process that has ended from one whose first thread has: when
// another thread executes a program, the first one is a zombie for a moment.
func (s stat) ended() bool {
	return s.state == "X" || s.state == "Z" && (s.threads == "0" || s.threads == "1")
}

func readStat(pid int) (stat, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(content))
}

// parseStat reads a line of proc(5)'s stat. The program's name stands in
// parentheses and may itself hold spaces and parentheses.
func parseStat(line string) (stat, error) {
	end := strings.LastIndexByte(line, ')')
	fields := strings.Fields(line[end+1:])
	// The state is the third field, the number of threads the 20th and the start
	// time the 22nd; two come before fields.
	if end < 0 || len(fields) < 20 {
		return stat{}, fmt.Errorf("unreadable process status %q", line)
	}
	return stat{state: fields[0], threads: fields[17], start: fields[19]}, nil
}

// RecordNode stores the node's first process.
func (d Dir) RecordNode(p Process) error {
	content, err := json.Marshal(p)
	if err != nil {
		return err
	}
	staged := d.Path(".node.json")
	if err := os.WriteFile(staged, content, 0o600); err != nil {
		return err
	}
	return os.Rename(staged, d.Path("node.json"))
}

// Node returns the node's first process; ok is false when none was recorded.
func (d Dir) Node() (p Process, ok bool, err error) {
	content, err := os.ReadFile(d.Path("node.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Process{}, false, nil
	}
	if err != nil {
		return Process{}, false, err
	}
	if err := json.Unmarshal(content, &p); err != nil {
		return Process{}, false, fmt.Errorf("read %s: %w", d.Path("node.json"), err)
	}
	return p, true, nil
}
