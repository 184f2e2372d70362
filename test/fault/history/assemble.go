// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Operation is a request to the store with its answer.
type Operation struct {
	Process  string
	Op       Op
	Key      string
	ID, From string
	TTL      time.Duration
	// Call and Return are when the request was about to leave, and when nothing of it can happen any more.
	Call, Return int64
	Status       Status
	Token        driver.Token
	Note         string
}

// Belief is a time during which a process believed to hold a key.
type Belief struct {
	Process     string
	Key, ID     string
	Token       driver.Token
	From, Until int64
	// How it ended; Abandoned for a process that did not say.
	How Status
	// Late says that the process had outlived the lock on purpose, so that the loss is no surprise.
	Late bool
}

// Waited is a caller that waited for a key.
type Waited struct {
	Process     string
	Key         string
	From, Until int64
	Status      Status
}

// Fault is a time during which a fault was on.
type Fault struct {
	Name        string
	Target      string
	From, Until int64
}

// History is what happened to one key.
type History struct {
	Key     string
	Ops     []Operation
	Beliefs []Belief
	Waits   []Waited
}

// Process is what one process wrote.
type Process struct {
	Name    string
	Records []Record
	// Ended is when it cannot have done anything any more.
	Ended int64
}

// Assemble joins the records of all processes, and sorts them by key. A request without an answer, or with one that leaves it open whether it was applied, may be applied
// until the end of the faults that were on when it was given up, and drain later.
func Assemble(processes []Process, faults []Fault, drain time.Duration) []*History {
	byKey := map[string]*History{}
	at := func(key string) *History {
		h := byKey[key]
		if h == nil {
			h = &History{Key: key}
			byKey[key] = h
		}
		return h
	}
	for _, p := range processes {
		for _, op := range operations(p) {
			if op.Status == Unknown {
				op.Return = settled(op.Return, faults) + int64(drain)
			}
			at(op.Key).Ops = append(at(op.Key).Ops, op)
		}
		for _, b := range beliefs(p) {
			at(b.Key).Beliefs = append(at(b.Key).Beliefs, b)
		}
		for _, r := range p.Records {
			if r.Kind == Wait {
				at(r.Key).Waits = append(at(r.Key).Waits, Waited{Process: p.Name, Key: r.Key, From: r.Since, Until: r.At, Status: r.Status})
			}
		}
	}
	var all []*History
	for _, h := range byKey {
		slices.SortFunc(h.Ops, func(a, b Operation) int { return cmp.Compare(a.Call, b.Call) })
		slices.SortFunc(h.Beliefs, func(a, b Belief) int { return cmp.Compare(a.From, b.From) })
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *History) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// settled is the end of the faults that were on at an instant.
func settled(at int64, faults []Fault) int64 {
	end := at
	for _, f := range faults {
		if f.From <= at && at <= f.Until {
			end = max(end, f.Until)
		}
	}
	return end
}

func operations(p Process) []Operation {
	var ops []Operation
	open := map[int64]int{}
	for _, r := range p.Records {
		switch r.Kind {
		case Call:
			open[r.N] = len(ops)
			ops = append(ops, Operation{
				Process: p.Name, Op: r.Op, Key: r.Key, ID: r.ID, From: r.From, TTL: r.TTL, Call: r.At, Return: p.Ended, Status: Unknown, Note: "the process ended",
			})
		case Return:
			if i, ok := open[r.N]; ok {
				ops[i].Return, ops[i].Status, ops[i].Token, ops[i].Note = r.At, r.Status, r.Token, r.Note
				delete(open, r.N)
			}
		default:
		}
	}
	return ops
}

func beliefs(p Process) []Belief {
	var all []Belief
	open := map[string]int{}
	for _, r := range p.Records {
		switch r.Kind {
		case Hold:
			if i, ok := open[r.ID]; ok {
				if r.Until > r.At { // Else it says that the lock is over.
					all[i].Until = max(all[i].Until, r.Until)
				}
				continue
			}
			open[r.ID] = len(all)
			all = append(all, Belief{Process: p.Name, Key: r.Key, ID: r.ID, Token: r.Token, From: r.At, Until: r.Until, How: Abandoned, Late: true})
		case End:
			if i, ok := open[r.ID]; ok {
				all[i].Until = min(all[i].Until, r.At)
				if all[i].How == Abandoned { // What came first is how it ended.
					all[i].How, all[i].Late = r.Status, r.Late
				}
			}
		default:
		}
	}
	for i := range all {
		all[i].Until = min(all[i].Until, p.Ended)
	}
	return all
}
