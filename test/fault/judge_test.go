// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lockstead/lockstead/test/fault/check"
	"github.com/lockstead/lockstead/test/fault/history"
	"github.com/lockstead/lockstead/test/fault/resource"
)

// result is what came of a run.
type result struct {
	Backend    string `json:"backend"`
	Fault      string `json:"fault"`
	Bug        string `json:"bug,omitempty"`
	Breaks     bool   `json:"breaks,omitempty"`
	Seed       uint64 `json:"seed"`
	Histories  int    `json:"histories"`
	Operations int    `json:"operations"`
	// Flagged counts the histories in which a checker found something.
	Flagged map[string]int `json:"flagged"`
	// Open and Fenced are the guarded resource without and with a fence.
	Open   check.Tally `json:"open"`
	Fenced check.Tally `json:"fenced"`
	// Surprises are locks that were lost though their holder did not oversleep.
	Surprises int `json:"surprises"`
	Leaked    int `json:"leaked"`
	// Recovery has, in milliseconds, for each lock of a client that was killed the time to the next grant, and for each fault of a server the time from its end
	// to the next grant of each key.
	Recovery []float64 `json:"recovery,omitempty"`
	Seconds  float64   `json:"seconds"`

	violations []check.Violation
	histories  []*history.History
}

func judge(r *rig, f *fault, histories []*history.History, lists map[string]*[2]*resource.Log, leaked int) *result {
	res := &result{
		Backend: r.backend.name, Fault: f.name, Bug: r.bug, Breaks: f.breaks, Seed: r.seed, Histories: len(histories), Leaked: leaked,
		Flagged: map[string]int{}, Seconds: r.shape.length.Seconds(), histories: histories,
	}
	terms := r.terms()
	if f.stretches {
		terms.Lapse = -1
	}
	var mu sync.Mutex
	var work sync.WaitGroup
	slots := make(chan struct{}, 2)
	for _, h := range histories {
		res.Operations += len(h.Ops)
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			found := append(check.Beliefs(h), check.Service(h, terms)...)
			found = append(found, check.Wakeups(h, r.faults, r.backend.wake)...)
			mu.Lock()
			defer mu.Unlock()
			res.add(found)
		})
	}
	work.Wait()
	for _, h := range histories {
		if lists[h.Key] == nil {
			continue
		}
		open, _ := check.Resource(h.Key, lists[h.Key][0])
		fenced, found := check.Resource(h.Key, lists[h.Key][1])
		res.Open, res.Fenced = sum(res.Open, open), sum(res.Fenced, fenced)
		res.add(append(found, check.Refusals(h.Key, lists[h.Key][1])...))
		for _, b := range h.Beliefs {
			if b.How == history.Lost && !b.Late {
				res.Surprises++
			}
		}
		res.Recovery = append(res.Recovery, recoveries(h, r.faults)...)
	}
	return res
}

// add counts the histories by checker.
func (r *result) add(found []check.Violation) {
	r.violations = append(r.violations, found...)
	seen := map[string]bool{}
	for _, v := range found {
		if !seen[v.Checker] {
			seen[v.Checker] = true
			r.Flagged[v.Checker]++
		}
	}
}

func sum(a, b check.Tally) check.Tally {
	return check.Tally{Acknowledged: a.Acknowledged + b.Acknowledged, Lost: a.Lost + b.Lost, Refused: a.Refused + b.Refused}
}

// server is the target of a fault that hits all clients.
const server = "server"

func recoveries(h *history.History, faults []history.Fault) []float64 {
	var all []float64
	for _, f := range faults {
		from := f.Until
		if f.Target != server {
			held := false
			for _, b := range h.Beliefs {
				held = held || (b.Process == f.Target && b.From <= f.From && f.From < b.Until)
			}
			if !held || f.Name != "F2" {
				continue
			}
			from = f.From
		}
		for _, op := range h.Ops {
			if op.Return > from && op.Call >= f.From && op.Op == history.Acquire && op.Status == history.OK {
				all = append(all, float64(op.Return-from)/float64(time.Millisecond))
				break
			}
		}
	}
	return all
}

// unexpected are the violations that a run must not have.
func (r *result) unexpected() []check.Violation {
	var found []check.Violation
	for _, v := range r.violations {
		// Where exclusion is expected to break, the fence must hold.
		if r.Breaks && (v.Checker != check.ResourceChecker || strings.Contains(v.Problem, "refused token")) {
			continue
		}
		found = append(found, v)
	}
	return found
}

// keep writes down a run that must not be forgotten, and returns where.
func (r *rig) keep(res *result, found []check.Violation) string {
	dir := filepath.Join(outputDir(), "failures", fmt.Sprintf("%s-%s-%d", res.Fault, res.Backend, res.Seed))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err.Error()
	}
	for _, s := range r.slots {
		for _, file := range s.files {
			if content, err := os.ReadFile(file); err == nil {
				_ = os.WriteFile(filepath.Join(dir, filepath.Base(file)), content, 0o600)
			}
		}
	}
	_ = writeJSON(filepath.Join(dir, "violations.json"), found)
	_ = writeJSON(filepath.Join(dir, "faults.json"), r.faults)
	bad := map[string]bool{}
	for _, v := range found {
		bad[v.Key] = true
	}
	for _, h := range res.histories {
		if !bad[h.Key] {
			continue
		}
		_ = writeJSON(filepath.Join(dir, h.Key+".json"), h)
		if page, err := os.Create(filepath.Join(dir, h.Key+".html")); err == nil {
			_ = check.Draw(h, r.terms(), page)
			_ = page.Close()
		}
	}
	return dir
}

func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// outputDir is where results and failures go: what FAULT_OUT says, else dist/fault of the repository.
func outputDir() string {
	if dir := os.Getenv("FAULT_OUT"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "dist", "fault")
}
