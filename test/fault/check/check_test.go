// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/test/fault/check"
	"github.com/lockstead/lockstead/test/fault/history"
	"github.com/lockstead/lockstead/test/fault/resource"
)

const ttl = 100 * time.Millisecond

var terms = check.Terms{Lapse: 10 * time.Millisecond, Budget: 10 * time.Second}

func ms(n int64) int64 { return n * int64(time.Millisecond) }

func token(n uint64) driver.Token { return driver.Token{Epoch: 1, Sequence: n} }

// op is a request from one time to another in milliseconds, by the acquisition id.
func op(what history.Op, id string, from, until int64, status history.Status, sequence uint64) history.Operation {
	o := history.Operation{Op: what, ID: id, TTL: ttl, Call: ms(from), Return: ms(until), Status: status}
	if status == history.OK && (what == history.Acquire || what == history.Pass) {
		o.Token = token(sequence)
	}
	return o
}

func passed(from, to string, call, ret int64, sequence uint64) history.Operation {
	o := op(history.Pass, to, call, ret, history.OK, sequence)
	o.From = from
	return o
}

// Each history is one that a correct service can have made, or has one planted fault.
func TestService(t *testing.T) {
	t.Parallel()
	grantA := op(history.Acquire, "a", 0, 2, history.OK, 1)
	tests := map[string]struct {
		ops  []history.Operation
		good bool
	}{
		"nothing": {nil, true},
		"grant, renewal, release, next grant": {[]history.Operation{
			grantA, op(history.Renew, "a", 50, 52, history.OK, 0), op(history.Release, "a", 120, 122, history.OK, 0), op(history.Acquire, "b", 123, 124, history.OK, 2),
		}, true},
		"two grants at once":                           {[]history.Operation{grantA, op(history.Acquire, "b", 50, 51, history.OK, 2)}, false},
		"a grant after the TTL":                        {[]history.Operation{grantA, op(history.Acquire, "b", 101, 103, history.OK, 2)}, true},
		"a grant before a renewed TTL is over":         {[]history.Operation{grantA, op(history.Renew, "a", 50, 52, history.OK, 0), op(history.Acquire, "b", 110, 112, history.OK, 2)}, false},
		"a token that does not grow":                   {[]history.Operation{grantA, op(history.Release, "a", 10, 11, history.OK, 0), op(history.Acquire, "b", 20, 21, history.OK, 1)}, false},
		"a token that grows after a stranger's":        {[]history.Operation{op(history.Acquire, "a", 0, 2, history.OK, 7), op(history.Acquire, "b", 150, 151, history.OK, 3)}, false},
		"held while it is held":                        {[]history.Operation{grantA, op(history.Acquire, "b", 50, 51, history.Held, 0)}, true},
		"held though it was released":                  {[]history.Operation{grantA, op(history.Release, "a", 10, 11, history.OK, 0), op(history.Acquire, "b", 20, 21, history.Held, 0)}, false},
		"held though nobody ever took it":              {[]history.Operation{op(history.Acquire, "b", 20, 21, history.Held, 0)}, false},
		"held long after the TTL":                      {[]history.Operation{grantA, op(history.Acquire, "b", 150, 151, history.Held, 0)}, false},
		"held a moment after the TTL":                  {[]history.Operation{grantA, op(history.Acquire, "b", 105, 106, history.Held, 0)}, true},
		"held by one who does not know":                {[]history.Operation{op(history.Acquire, "a", 0, 30, history.Unknown, 0), op(history.Acquire, "b", 40, 41, history.Held, 0)}, true},
		"granted beside one who does not know":         {[]history.Operation{op(history.Acquire, "a", 0, 30, history.Unknown, 0), op(history.Acquire, "b", 40, 41, history.OK, 1)}, true},
		"held by one who was told that it was refused": {[]history.Operation{op(history.Acquire, "a", 0, 30, history.Unavailable, 0), op(history.Acquire, "b", 40, 41, history.Held, 0)}, false},
		"a lost release":                               {[]history.Operation{grantA, op(history.Release, "a", 10, 30, history.Unknown, 0), op(history.Acquire, "b", 40, 41, history.OK, 2)}, true},
		"a stranger's renewal succeeds":                {[]history.Operation{grantA, op(history.Renew, "b", 10, 11, history.OK, 0)}, false},
		"a stranger's release succeeds":                {[]history.Operation{grantA, op(history.Release, "b", 10, 11, history.OK, 0)}, false},
		"a renewal brings back what was released":      {[]history.Operation{grantA, op(history.Release, "a", 10, 11, history.OK, 0), op(history.Renew, "a", 20, 21, history.OK, 0)}, false},
		"a holder is refused":                          {[]history.Operation{grantA, op(history.Renew, "a", 50, 51, history.NotHolder, 0)}, false},
		"a holder is refused after its TTL":            {[]history.Operation{grantA, op(history.Renew, "a", 120, 121, history.NotHolder, 0)}, true},
		"passed on":                                    {[]history.Operation{grantA, passed("a", "b", 10, 11, 2), op(history.Release, "b", 20, 21, history.OK, 0)}, true},
		"passed on by a stranger":                      {[]history.Operation{grantA, passed("c", "b", 10, 11, 2)}, false},
		"passed on with an old token":                  {[]history.Operation{grantA, passed("a", "b", 10, 11, 1)}, false},
		"passed on, and the former holder renews":      {[]history.Operation{grantA, passed("a", "b", 10, 11, 2), op(history.Renew, "a", 20, 21, history.OK, 0)}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &history.History{Key: "k", Ops: tc.ops}
			if found := check.Service(h, terms); (len(found) == 0) != tc.good {
				t.Errorf("found %v, want none: %t", found, tc.good)
			}
			var page strings.Builder
			if err := check.Draw(h, terms, &page); err != nil || !strings.Contains(page.String(), "<html") {
				t.Errorf("no page was drawn: %v", err)
			}
		})
	}
}

// A search without a verdict must not pass for a good one.
func TestSearchWithoutAVerdictIsAViolation(t *testing.T) {
	t.Parallel()
	h := &history.History{Key: "k"}
	for i := range 60 {
		h.Ops = append(h.Ops, op(history.Acquire, fmt.Sprint(i), 0, 1000, history.Unknown, 0), op(history.Acquire, fmt.Sprint("g", i), 0, 1000, history.OK, uint64(1000-i)))
	}
	found := check.Service(h, check.Terms{Budget: time.Nanosecond})
	if len(found) != 1 || !strings.Contains(found[0].Problem, "no verdict") {
		t.Errorf("found %v, want that there is no verdict", found)
	}
}

func TestBeliefs(t *testing.T) {
	t.Parallel()
	belief := func(from, until int64) history.Belief { return history.Belief{From: ms(from), Until: ms(until)} }
	for name, tc := range map[string]struct {
		beliefs []history.Belief
		want    int
	}{
		"one after another":              {[]history.Belief{belief(0, 10), belief(10, 20), belief(25, 30)}, 0},
		"two at once":                    {[]history.Belief{belief(0, 10), belief(9, 20)}, 1},
		"one within another":             {[]history.Belief{belief(0, 100), belief(10, 20), belief(30, 40)}, 2},
		"one that was over at its start": {[]history.Belief{belief(0, 100), belief(10, 10)}, 0},
	} {
		if found := check.Beliefs(&history.History{Beliefs: tc.beliefs}); len(found) != tc.want {
			t.Errorf("%s: found %v, want %d", name, found, tc.want)
		}
	}
}

func TestResource(t *testing.T) {
	t.Parallel()
	write := func(id string, sequence uint64) resource.Write {
		return resource.Write{ID: id, Token: token(sequence), Accepted: true}
	}
	refused := resource.Write{ID: "r", Token: token(1)}
	refusedValid := resource.Write{ID: "v", Token: token(1), Valid: true}
	for name, tc := range map[string]struct {
		log           resource.Log
		lost, refused int
		violations    int
	}{
		"all there":                        {resource.Log{Fenced: true, Writes: []resource.Write{write("a", 1), write("b", 2), refused}, Final: []string{"a", "b"}}, 0, 1, 0},
		"lost without a fence":             {resource.Log{Writes: []resource.Write{write("a", 2), write("b", 1)}, Final: []string{"b"}}, 1, 0, 0},
		"lost in spite of a fence":         {resource.Log{Fenced: true, Writes: []resource.Write{write("a", 1), write("b", 2)}, Final: []string{"b"}}, 1, 0, 1},
		"an older token after a newer one": {resource.Log{Fenced: true, Writes: []resource.Write{write("a", 2), refused, write("b", 1)}, Final: []string{"a", "b"}}, 0, 1, 1},
		"a valid holder is refused":        {resource.Log{Fenced: true, Writes: []resource.Write{write("a", 2), refusedValid}, Final: []string{"a"}}, 0, 1, 1},
	} {
		tally, found := check.Resource("k", &tc.log)
		found = append(found, check.Refusals("k", &tc.log)...)
		if tally.Lost != tc.lost || tally.Refused != tc.refused || len(found) != tc.violations {
			t.Errorf("%s: %+v with %v, want %d lost, %d refused, %d violations", name, tally, found, tc.lost, tc.refused, tc.violations)
		}
	}
}

func TestWakeups(t *testing.T) {
	t.Parallel()
	ops := []history.Operation{
		op(history.Acquire, "a", 0, 1, history.OK, 1), op(history.Release, "a", 100, 101, history.OK, 0), op(history.Acquire, "b", 600, 601, history.OK, 2),
	}
	h := &history.History{Ops: ops, Waits: []history.Waited{{Process: "c1", From: ms(50), Until: ms(601), Status: history.OK}}}
	const patience = 200 * time.Millisecond
	if found := check.Wakeups(h, nil, patience); len(found) != 1 {
		t.Errorf("a waiter that slept for 499 ms: found %v", found)
	}
	if found := check.Wakeups(h, []history.Fault{{From: ms(300), Until: ms(310)}}, patience); len(found) != 0 {
		t.Errorf("a waiter that slept during a fault: found %v", found)
	}
	if found := check.Wakeups(h, nil, time.Second); len(found) != 0 {
		t.Errorf("a waiter that slept for less than is allowed: found %v", found)
	}
	ops[2] = op(history.Acquire, "b", 110, 111, history.OK, 2)
	if found := check.Wakeups(h, nil, patience); len(found) != 0 {
		t.Errorf("a key that was taken at once: found %v", found)
	}
}
