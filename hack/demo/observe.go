// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/hack/demo/sections"
)

const (
	// warmUp is how many sections are watched before a holder is killed, and coolDown how many after the take-over.
	warmUp   = 15
	coolDown = 10
	// stepLimit bounds each wait for something that the workers do.
	stepLimit = 90 * time.Second
	// killTries: a pod that dies between two sections holds nothing, and another has to go.
	killTries = 5
)

// observer watches the workers of one phase.
type observer struct {
	phase    phase
	kube     *kube
	follower *follower
	out      *console

	history *sections.History
	clock   bootClock
	// ready are the pods whose worker has started, ended those whose log is over, with the time.
	ready map[string]bool
	ended map[string]time.Time
	// warnings are log lines that a person should see.
	warnings []string
}

func newObserver(p phase, kube *kube, follower *follower, out *console) *observer {
	return &observer{
		phase: p, kube: kube, follower: follower, out: out,
		history: sections.NewHistory(), ready: make(map[string]bool), ended: make(map[string]time.Time),
	}
}

// observe watches, kills, watches the take-over, and judges.
func (o *observer) observe(ctx context.Context) (result, error) {
	err := o.until(ctx, fmt.Sprintf("%d replicas at work", replicas), func() bool {
		report := o.history.Check()
		return len(o.ready) >= replicas && report.Pods >= replicas && report.Sections >= warmUp
	})
	if err != nil {
		return result{}, err
	}
	takeOver, err := o.killHolder(ctx)
	if err != nil {
		return result{}, err
	}
	before := o.history.Check().Sections
	err = o.until(ctx, "a new replica at work", func() bool {
		return len(o.ready)-len(o.ended) >= replicas && o.history.Check().Sections >= before+coolDown
	})
	if err != nil {
		return result{}, err
	}
	return o.judge(takeOver)
}

// killHolder kills a pod that holds locks and measures how long its keys were without a holder.
func (o *observer) killHolder(ctx context.Context) (time.Duration, error) {
	for range killTries {
		victim := o.victim()
		if victim == "" {
			if err := o.until(ctx, "somebody holds a lock", func() bool { return o.victim() != "" }); err != nil {
				return 0, err
			}
			continue
		}
		o.out.step("backend %s: killing %s while it holds a lock", o.phase.backend, victim)
		o.history.Alive(victim, o.clock.at(time.Now()))
		err := o.kube.clientset.CoreV1().Pods(o.phase.namespace).Delete(ctx, victim, *metav1.NewDeleteOptions(0))
		if err != nil {
			return 0, fmt.Errorf("killing the pod: %w", err)
		}
		if err := o.until(ctx, victim+" is dead", func() bool { return !o.ended[victim].IsZero() }); err != nil {
			return 0, err
		}
		orphans := o.history.OpenOf(victim)
		if len(orphans) == 0 {
			o.out.note("it died between two sections and held nothing; once more")
			continue
		}
		return o.takeOver(ctx, victim, orphans)
	}
	return 0, fmt.Errorf("no pod died holding a lock in %d tries", killTries)
}

// victim is the pod that holds most keys now.
func (o *observer) victim() string {
	keys := make(map[string]int)
	for _, s := range o.history.Holding() {
		if o.ended[s.Pod].IsZero() {
			keys[s.Pod]++
		}
	}
	most := ""
	for _, pod := range slices.Sorted(maps.Keys(keys)) {
		if most == "" || keys[pod] > keys[most] {
			most = pod
		}
	}
	return most
}

// takeOver waits until every orphaned key has a new holder. The time that is told counts from the last sign of life of the dead pod, so it is
// what a user waits; the limit counts from the end of its log, since until then it may have renewed.
func (o *observer) takeOver(ctx context.Context, victim string, orphans []sections.Section) (time.Duration, error) {
	var names []string
	for _, orphan := range orphans {
		names = append(names, orphan.Key)
	}
	err := o.until(ctx, "somebody takes over "+strings.Join(names, ", "), func() bool {
		for _, orphan := range orphans {
			if _, ok := o.history.NextHolder(orphan); !ok {
				return false
			}
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	var longest time.Duration
	for _, orphan := range orphans {
		next, _ := o.history.NextHolder(orphan)
		took := next.Start - orphan.End
		o.out.note(fmt.Sprintf("%s was taken over by %s after %.1f s (TTL %s), token %s after %s", orphan.Key, next.Pod, took.Seconds(), lockTTL, next.Token, orphan.Token))
		if late := next.Start - o.clock.at(o.ended[victim]); late > takeOverLimit {
			return 0, fmt.Errorf("%s was taken over %.1f s after its holder was dead, the limit is %s", orphan.Key, late.Seconds(), takeOverLimit)
		}
		longest = max(longest, took)
	}
	return longest, nil
}

// judge gives the result, or everything that was wrong.
func (o *observer) judge(takeOver time.Duration) (result, error) {
	report := o.history.Check()
	var problems []error
	for _, sentence := range slices.Concat(report.Overlaps, report.Regressions, report.Malformed) {
		problems = append(problems, errors.New(sentence))
	}
	if report.Lost > 0 {
		problems = append(problems, fmt.Errorf("%d sections lost their lock although nothing was wrong with the backend", report.Lost))
	}
	if len(o.warnings) > 0 {
		o.out.note(fmt.Sprintf("the workers logged %d warnings, the last: %s", len(o.warnings), o.warnings[len(o.warnings)-1]))
	}
	return result{backend: o.phase.backend, sections: report.Sections, takeOver: takeOver}, errors.Join(problems...)
}

// until takes in log lines and shows who holds what, until done says so.
func (o *observer) until(ctx context.Context, what string, done func() bool) error {
	limit := time.NewTimer(stepLimit)
	defer limit.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case a, open := <-o.follower.arrivals:
			if !open {
				return context.Cause(ctx)
			}
			if err := o.take(a); err != nil {
				return err
			}
		case now := <-tick.C:
			o.show(now)
		case <-limit.C:
			return fmt.Errorf("waited %s in vain until %s", stepLimit, what)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// take adds one line to what is known.
func (o *observer) take(a arrival) error {
	if a.ended {
		o.ended[a.pod] = a.at
		return nil
	}
	record, err := sections.Parse(a.line)
	if err != nil {
		return fmt.Errorf("pod %s: %w", a.pod, err)
	}
	switch {
	case record.Event == "":
		if record.Level == "WARN" || record.Level == "ERROR" {
			o.warnings = append(o.warnings, fmt.Sprintf("%s: %s %s", a.pod, record.Message, record.Error))
		}
		return nil
	case record.Event == sections.EventReady:
		o.ready[a.pod] = true
	case record.Error != "":
		o.warnings = append(o.warnings, fmt.Sprintf("%s: %s: %s", a.pod, record.Message, record.Error))
	}
	o.clock.observe(record.Boot, a.at)
	o.history.Add(record)
	return nil
}

func (o *observer) show(now time.Time) {
	report := o.history.Check()
	view := view{backend: o.phase.backend, sections: report.Sections, overlaps: len(report.Overlaps), pods: len(o.ready) - len(o.ended)}
	at := o.clock.at(now)
	for _, s := range o.history.Holding() {
		row := row{key: s.Key, pod: s.Pod, token: s.Token.String(), held: max(0, at-s.Start), dead: !o.ended[s.Pod].IsZero()}
		view.rows = append(view.rows, row)
	}
	slices.SortFunc(view.rows, func(a, b row) int { return strings.Compare(a.key, b.key) })
	o.out.show(now, view)
}
