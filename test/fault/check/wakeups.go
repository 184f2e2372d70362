// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"time"

	"github.com/lockstead/lockstead/test/fault/history"
)

// Wakeups finds callers that slept for longer than patience while the key was free, at a time without faults: it was released, and nobody had it until the wait was over or
// somebody else asked by chance.
func Wakeups(h *history.History, faults []history.Fault, patience time.Duration) []Violation {
	var found []Violation
	for _, free := range idle(h) {
		if disturbed(free.from, free.until, faults) {
			continue
		}
		for _, w := range h.Waits {
			from, until := max(free.from, w.From), min(free.until, w.Until)
			if slept := time.Duration(until - from); slept > patience {
				found = append(found, Violation{WakeupChecker, h.Key, fmt.Sprintf("%s waited for %s while the key was free from %d on", w.Process, slept, from)})
			}
		}
	}
	return found
}

type span struct{ from, until int64 }

// idle are the times between a release that was answered and the next request that was granted.
func idle(h *history.History) []span {
	var spans []span
	for _, op := range h.Ops {
		if op.Op != history.Release || op.Status != history.OK {
			continue
		}
		next := int64(1<<63 - 1)
		for _, later := range h.Ops {
			grants := (later.Op == history.Acquire || later.Op == history.Pass) && (later.Status == history.OK || later.Status == history.Unknown)
			if grants && later.Return > op.Call {
				next = min(next, later.Call)
			}
		}
		if next > op.Return {
			spans = append(spans, span{op.Return, next})
		}
	}
	return spans
}

func disturbed(from, until int64, faults []history.Fault) bool {
	for _, f := range faults {
		if f.From <= until && from <= f.Until {
			return true
		}
	}
	return false
}
