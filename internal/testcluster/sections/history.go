// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package sections

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Section is the time that one pod spent in the guarded part of one key.
type Section struct {
	Key   string
	Pod   string
	Token lock.Token
	Start time.Duration
	// End of an open section is when its pod was last known to be alive.
	End time.Duration
	// Open: no record of the end was seen; the pod died in the section, or is still in it.
	Open bool
	// Lost: the lock ended before the work did, and the worker noticed.
	Lost bool
}

func (s Section) String() string {
	state := ""
	if s.Open {
		state = " (open)"
	}
	return fmt.Sprintf("%s in %s, token %s, %.3f s to %.3f s%s", s.Key, s.Pod, s.Token, s.Start.Seconds(), s.End.Seconds(), state)
}

// History collects records in any order between pods; the records of one pod come in theirs.
type History struct {
	done  []Section
	open  map[holder]Section
	alive map[string]time.Duration
	bad   []string
	// backends are those that the workers said they use.
	backends map[string]bool
}

type holder struct{ pod, key string }

// NewHistory makes an empty one.
func NewHistory() *History {
	return &History{open: make(map[holder]Section), alive: make(map[string]time.Duration), backends: make(map[string]bool)}
}

// Add takes one record.
func (h *History) Add(r Record) {
	h.Alive(r.Pod, r.Boot)
	if r.Backend != "" {
		h.backends[r.Backend] = true
	}
	at := holder{r.Pod, r.Key}
	switch r.Event {
	case EventStart:
		if before, ok := h.open[at]; ok {
			h.bad = append(h.bad, fmt.Sprintf("a pod started a section twice: %s", before))
			h.finish(before, h.alive[r.Pod])
		}
		h.open[at] = Section{Key: r.Key, Pod: r.Pod, Token: r.Token, Start: r.Boot}
	case EventEnd, EventLost:
		section, ok := h.open[at]
		if !ok || section.Token != r.Token {
			h.bad = append(h.bad, fmt.Sprintf("pod %s ended a section of %s with token %s that it had not started", r.Pod, r.Key, r.Token))
			return
		}
		section.Lost = r.Event == EventLost
		delete(h.open, at)
		h.finish(section, r.Boot)
	}
}

func (h *History) finish(s Section, end time.Duration) {
	s.End = end
	h.done = append(h.done, s)
}

// Alive says that the pod lived at a time: an open section lasts at least until then.
func (h *History) Alive(pod string, at time.Duration) { h.alive[pod] = max(h.alive[pod], at) }

// Holding gives the sections that are open now, by key, the newest of each key.
func (h *History) Holding() map[string]Section {
	holding := make(map[string]Section)
	for _, s := range h.open {
		if other, ok := holding[s.Key]; !ok || s.Start > other.Start {
			holding[s.Key] = s
		}
	}
	return holding
}

// OpenOf gives the open sections of one pod, in the order of their keys.
func (h *History) OpenOf(pod string) []Section {
	var sections []Section
	for _, s := range h.all() {
		if s.Open && s.Pod == pod {
			sections = append(sections, s)
		}
	}
	slices.SortFunc(sections, func(a, b Section) int { return cmp.Compare(a.Key, b.Key) })
	return sections
}

// all gives every section in the order of the starts.
func (h *History) all() []Section {
	sections := slices.Clone(h.done)
	for _, s := range h.open {
		s.Open = true
		s.End = max(s.Start, h.alive[s.Pod])
		sections = append(sections, s)
	}
	slices.SortFunc(sections, func(a, b Section) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), a.Token.Compare(b.Token))
	})
	return sections
}

// Report is the judgement of a history.
type Report struct {
	// Sections is how many ended regularly.
	Sections int
	// Lost is how many were cut short because their lock ended.
	Lost int
	// Pods is how many did at least one section.
	Pods int
	// Backends are the backends that the workers used, in order.
	Backends []string
	// Overlaps, Regressions and Malformed are sentences; a good history has none.
	Overlaps, Regressions, Malformed []string
}

// Check judges everything that was added so far.
func (h *History) Check() Report {
	report := Report{Malformed: slices.Clone(h.bad), Backends: slices.Sorted(maps.Keys(h.backends))}
	pods := make(map[string]bool)
	latest := make(map[string]Section) // by key: the section that ends last so far
	greatest := make(map[string]Section)
	for _, s := range h.all() {
		pods[s.Pod] = true
		switch {
		case s.Lost:
			report.Lost++
		case !s.Open:
			report.Sections++
		}
		if before, ok := latest[s.Key]; ok && s.Start < before.End {
			report.Overlaps = append(report.Overlaps, fmt.Sprintf("%s overlaps %s", s, before))
		}
		if before, ok := latest[s.Key]; !ok || s.End > before.End {
			latest[s.Key] = s
		}
		if before, ok := greatest[s.Key]; ok && !before.Token.Less(s.Token) {
			report.Regressions = append(report.Regressions, fmt.Sprintf("the token of %s is not greater than that of %s", s, before))
		} else {
			greatest[s.Key] = s
		}
	}
	report.Pods = len(pods)
	return report
}

// NextHolder gives the first section of the key that another pod started after the given one, or false.
func (h *History) NextHolder(of Section) (Section, bool) {
	for _, s := range h.all() {
		if s.Key == of.Key && s.Pod != of.Pod && of.Token.Less(s.Token) {
			return s, true
		}
	}
	return Section{}, false
}
