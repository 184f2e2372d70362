// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/test/fault/history"
)

// Terms are what a store promises about time.
type Terms struct {
	// Lapse is for how long after the end of a TTL a store may still say that the key is held. A negative one is any time.
	Lapse time.Duration
	// Budget bounds the search for one history.
	Budget time.Duration
}

// state is what the lock service knows of a key, as far as its answers tell.
type state struct {
	owner string
	token driver.Token
	// safe is until when the owner certainly has the key, late the instant from which it certainly has not.
	safe, late int64
}

// Service looks for an order of the requests, each at an instant between call and return, that explains all answers. A search that does not end in time
// is a violation too.
func Service(h *history.History, terms Terms) []Violation {
	result, _, _ := search(h, terms, false)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return []Violation{{ServiceChecker, h.Key, fmt.Sprintf("no order of the %d requests explains their answers", len(h.Ops))}}
	default:
		return []Violation{{ServiceChecker, h.Key, fmt.Sprintf("no verdict on %d requests within %s", len(h.Ops), terms.Budget)}}
	}
}

// Draw writes a page of HTML that shows a history and how far it can be explained.
func Draw(h *history.History, terms Terms, out io.Writer) error {
	_, model, info := search(h, terms, true)
	return porcupine.Visualize(model, info, out)
}

func search(h *history.History, terms Terms, verbose bool) (porcupine.CheckResult, porcupine.Model, porcupine.LinearizationInfo) {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{safe: math.MinInt64, late: math.MinInt64}} },
		Step: func(s, in, _ any) []any {
			next := step(s.(state), in.(history.Operation), terms.Lapse)
			all := make([]any, len(next))
			for i := range next {
				all[i] = next[i]
			}
			return all
		},
		DescribeOperation: func(in, _ any) string {
			op := in.(history.Operation)
			return fmt.Sprintf("%s %s %.6s: %s %s %s", op.Process, op.Op, op.ID, op.Status, op.Token, op.Note)
		},
		DescribeState: func(s any) string {
			t := s.(state)
			return fmt.Sprintf("owner %.6s token %s safe %d late %d", t.owner, t.token, t.safe, t.late)
		},
	}
	model := m.ToModel()
	var ops []porcupine.Operation
	lanes := []int64{}
	for _, op := range h.Ops {
		if op.Status == history.Unavailable {
			continue // Certainly not applied: it must be explained without.
		}
		lane := 0
		for lane < len(lanes) && lanes[lane] >= op.Call {
			lane++
		}
		if lane == len(lanes) {
			lanes = append(lanes, 0)
		}
		lanes[lane] = op.Return
		ops = append(ops, porcupine.Operation{ClientId: lane, Input: op, Call: op.Call, Output: nil, Return: op.Return})
	}
	if verbose {
		result, info := porcupine.CheckOperationsVerbose(model, ops, terms.Budget)
		return result, model, info
	}
	return porcupine.CheckOperationsTimeout(model, ops, terms.Budget), model, porcupine.LinearizationInfo{}
}

// step returns what the service may know after an operation with this answer; none when the answer is impossible.
func step(s state, op history.Operation, lapse time.Duration) []state {
	mine := s.owner != "" && s.owner == op.ID
	ends := func() int64 {
		if lapse < 0 {
			return math.MaxInt64
		}
		return op.Return + int64(op.TTL+lapse)
	}
	granted := state{owner: op.ID, token: op.Token, safe: op.Call + int64(op.TTL), late: ends()}
	// What may have been granted has a token that is only known to be greater, and may have begun at any time.
	ghost := state{owner: op.ID, token: s.token, safe: math.MinInt64, late: ends()}
	switch op.Op {
	case history.Acquire:
		free := s.owner == "" || op.Return >= s.safe
		switch op.Status {
		case history.OK:
			if !free || !s.token.Less(op.Token) {
				return nil
			}
			return []state{granted}
		case history.Held:
			if s.owner == "" || op.Call > s.late {
				return nil
			}
			return []state{s}
		case history.Unknown:
			if !free {
				return []state{s}
			}
			return []state{s, ghost}
		default:
			return []state{s}
		}
	case history.Pass:
		from := s.owner != "" && s.owner == op.From
		switch op.Status {
		case history.OK:
			if !from || !s.token.Less(op.Token) {
				return nil
			}
			return []state{granted}
		case history.NotHolder:
			return refused(s, op, from)
		case history.Unknown:
			if !from {
				return []state{s}
			}
			return []state{s, ghost}
		default:
			return []state{s}
		}
	case history.Renew:
		switch op.Status {
		case history.OK:
			if !mine {
				return nil
			}
			s.safe, s.late = max(s.safe, op.Call+int64(op.TTL)), max(s.late, ends())
			return []state{s}
		case history.NotHolder:
			return refused(s, op, mine)
		case history.Unknown:
			if mine {
				s.late = max(s.late, ends())
			}
			return []state{s}
		default:
			return []state{s}
		}
	case history.Release:
		freed := state{token: s.token, safe: math.MinInt64, late: math.MinInt64}
		switch op.Status {
		case history.OK:
			if !mine {
				return nil
			}
			return []state{freed}
		case history.NotHolder:
			return refused(s, op, mine)
		case history.Unknown:
			if mine {
				return []state{s, freed}
			}
			return []state{s}
		default:
			return []state{s}
		}
	default:
		return nil
	}
}

// refused is an answer "not the holder": impossible while the one who asked certainly is.
func refused(s state, op history.Operation, holder bool) []state {
	if holder && op.Return < s.safe {
		return nil
	}
	return []state{s}
}
