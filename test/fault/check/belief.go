// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check judges histories. Its checkers are pure functions, and each finds faults that the others cannot see:
//
//   - Beliefs: two processes that believe at one instant to hold a key.
//   - Service: answers that no sequence of requests to one lock service with fencing tokens and a TTL can explain.
//   - Resource: updates of a guarded resource that were lost, or written in the wrong order.
//   - Wakeups: callers that slept on while the key was free.
package check

import (
	"fmt"
	"time"

	"github.com/lockstead/lockstead/test/fault/history"
)

// Violation says what is wrong.
type Violation struct {
	Checker string `json:"checker"`
	Key     string `json:"key"`
	Problem string `json:"problem"`
}

// The names of the checkers.
const (
	BeliefChecker   = "beliefs"
	ServiceChecker  = "service"
	ResourceChecker = "resource"
	WakeupChecker   = "wakeups"
)

// Beliefs finds the pairs of holds that overlap: at most one handle of a key is valid at any instant.
func Beliefs(h *history.History) []Violation {
	var found []Violation
	var last *history.Belief // the one that ends last so far; Beliefs are sorted by their start
	for i := range h.Beliefs {
		b := &h.Beliefs[i]
		if b.Until <= b.From {
			continue
		}
		if last != nil && b.From < last.Until {
			found = append(found, Violation{BeliefChecker, h.Key, fmt.Sprintf("%s (token %s) and %s (token %s) both held the key for %s from %d on",
				last.Process, last.Token, b.Process, b.Token, time.Duration(min(last.Until, b.Until)-b.From), b.From)})
		}
		if last == nil || b.Until > last.Until {
			last = b
		}
	}
	return found
}
