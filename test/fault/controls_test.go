// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build planted

package fault_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/test/fault/check"
	"github.com/lockstead/lockstead/test/fault/client"
)

var bugFlag = flag.String("bug", "", "plant only this bug")

// control is a bug, and the run in which it shows.
type control struct {
	bug, fault string
	shape      shape
	start      func(*testing.T) *backend
	patient    bool
}

func controls() []control {
	few := shape{clients: 3, workers: 6, keys: 4, length: 6 * time.Second}
	return []control{
		{bug: "release-unchecked", fault: "F1", shape: few},
		{bug: "renew-unchecked", fault: "F1", shape: few},
		{bug: "counted-from-response", fault: "F4", shape: few},
		{bug: "token-reset", fault: "F2", shape: few},
		{bug: "re-read-before-release", fault: "F1", shape: shape{clients: 2, workers: 10, keys: 2, length: 8 * time.Second}},
		{bug: "renew-re-creates", fault: "F2", shape: shape{clients: 3, workers: 4, keys: 6, length: 6 * time.Second}},
		{bug: "unknown-called-unavailable", fault: "F5", shape: few},
		{bug: "lost-wake-up", fault: "F0", shape: shape{clients: 3, workers: 1, keys: 1, length: 15 * time.Second}, start: startSlowRedis, patient: true},
	}
}

// startSlowRedis is for locks with a long TTL, so that a waiter that is not woken sleeps for long.
func startSlowRedis(t *testing.T) *backend {
	b := startRedis(t)
	b.ttl, b.wake = 5*time.Second, 1500*time.Millisecond
	return b
}

// startForgetfulRedis starts a server that is used without the operator: nobody arms it, so when it has lost its data it grants again at once.
func startForgetfulRedis(t *testing.T) *backend {
	t.Helper()
	b := startRedis(t)
	// A TTL that is far longer than a restart takes.
	b.name, b.ttl = "redis-unarmed", 2*time.Second
	b.store = func(address string) client.Store {
		return client.Store{Redis: &client.Redis{Address: address, User: "admin", Password: b.redis.AdminPassword(), Access: binding.AccessScripts}}
	}
	return b
}

// TestPlantedBugs demands that the checkers find every bug: one that cannot fail is no check.
func TestPlantedBugs(t *testing.T) {
	checkers := []string{check.BeliefChecker, check.ServiceChecker, check.ResourceChecker, check.WakeupChecker}
	rows := []string{fmt.Sprintf("%-28s %-6s %-10s %s", "planted bug", "fault", "histories", strings.Join(checkers, "  "))}
	row := func(bug string, res *result) {
		counts := make([]string, len(checkers))
		for i, c := range checkers {
			counts[i] = fmt.Sprintf("%-*d", len(c), res.Flagged[c])
		}
		rows = append(rows, fmt.Sprintf("%-28s %-6s %-10d %s", bug, res.Fault, res.Histories, strings.Join(counts, "  ")))
	}
	byName := map[string]*fault{}
	for _, f := range faults() {
		byName[f.name] = f
	}
	tested := map[string]bool{}
	for _, c := range controls() {
		tested[c.bug] = true
		if *bugFlag != "" && *bugFlag != c.bug {
			continue
		}
		start := startRedis
		if c.start != nil {
			start = c.start
		}
		res := untilFound(t, c, start, byName[c.fault])
		row(c.bug, res)
		if len(res.Flagged) == 0 {
			t.Errorf("no checker found %s", c.bug)
		}
	}
	for _, bug := range client.Bugs() {
		if !tested[bug] {
			t.Errorf("%s is not tested", bug)
		}
	}
	forgets := &fault{name: "F7", breaks: true, inject: func(r *rig) { injectRedisCrash(r, true) }}
	res := untilFound(t, control{shape: shape{clients: 5, workers: 4, keys: 8, length: 12 * time.Second}}, startForgetfulRedis, forgets)
	row("data lost without an epoch", res)
	if res.Flagged[check.BeliefChecker] == 0 || res.Flagged[check.ServiceChecker] == 0 {
		t.Errorf("a server that forgot its locks was not found: %v", res.Flagged)
	}
	if res.Fenced.Lost > 0 {
		t.Errorf("the fence did not hold: %+v", res.Fenced)
	}
	clean := newRig(t, startSlowRedis(t), controls()[len(controls())-1].shape, *seedFlag, "", true)
	clean.patient()
	res = clean.run(byName["F0"])
	row("none, as for lost-wake-up", res)
	if len(res.violations) > 0 {
		t.Errorf("without a bug: %v", res.violations)
	}
	t.Log("\n" + strings.Join(rows, "\n"))
}

// untilFound runs with one seed after another, a few at most.
func untilFound(t *testing.T, c control, start func(*testing.T) *backend, f *fault) *result {
	t.Helper()
	const seeds = 4
	for i := uint64(0); ; i++ {
		r := newRig(t, start(t), c.shape, *seedFlag+i, c.bug, f.healthy)
		if c.patient {
			r.patient()
		}
		if res := r.run(f); len(res.Flagged) > 0 || i == seeds-1 {
			return res
		}
	}
}

func (r *rig) patient() {
	for _, s := range r.slots {
		s.config.Patient = true
	}
}
