// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sections judges what the example worker logged: whether two sections of one key ever overlapped, whether the fencing tokens
// grew, and how long it took until a key was taken over from a pod that died. It does no I/O.
package sections

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// The events of the worker that matter here.
const (
	EventReady = "ready"
	EventStart = "start"
	EventEnd   = "end"
	EventLost  = "lost"
)

// Record is one line of a worker's log.
type Record struct {
	// Event is one of the constants, or something that is of no interest here.
	Event string `json:"event"`
	Pod   string `json:"pod"`
	// Backend is what the worker's binding names: redis or lease.
	Backend string `json:"backend"`
	Key     string `json:"key"`
	// Token is zero where the line has none.
	Token lock.Token `json:"token,omitzero"`
	// Boot is the time since the node started: one clock for all pods of a node.
	Boot time.Duration `json:"boot_ns"`
	// Level, Message and Error are for people.
	Level   string `json:"level"`
	Message string `json:"msg"`
	Error   string `json:"error"`
}

// Parse reads a line. Lines of the library, which share the stream, have no event.
func Parse(line []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		return Record{}, fmt.Errorf("log line %q: %w", line, err)
	}
	switch r.Event {
	case EventStart, EventEnd, EventLost:
		if r.Pod == "" || r.Key == "" || r.Token.IsZero() || r.Boot <= 0 {
			return Record{}, fmt.Errorf("log line %q: event %q needs pod, key, token and boot_ns", line, r.Event)
		}
	}
	return r, nil
}
