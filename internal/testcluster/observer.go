// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/internal/testcluster/sections"
)

const (
	// stepLimit bounds each wait for something that the workers do.
	stepLimit = 90 * time.Second
	// killTries: a pod that dies between two sections holds nothing, and another has to go.
	killTries = 5
)

// Observer watches the workers of one namespace by their logs. It is not safe for concurrent use.
type Observer struct {
	cluster   *Cluster
	namespace string
	ttl       time.Duration
	follower  *follower
	stop      context.CancelFunc
	tell      func(string)
	show      func(now time.Time, v View)

	history *sections.History
	clock   bootClock
	// ready are the pods whose worker has started, ended those whose log is over, with the time.
	ready map[string]bool
	ended map[string]time.Time
	// warnings are log lines that a person should see.
	warnings []string
}

// View is who holds what at a moment.
type View struct {
	Pods, Sections, Overlaps int
	Rows                     []Row
}

// Row is a key that somebody holds.
type Row struct {
	Key, Pod, Token string
	Held            time.Duration
	// Dead: the holder is gone, its lock is not yet.
	Dead bool
}

// Observe starts watching workers whose locks have the given TTL. It tells what happens, and shows who holds what while it waits; both may be
// nil. Close it at the end.
func (c *Cluster) Observe(ctx context.Context, namespace string, ttl time.Duration, tell func(string), show func(time.Time, View)) *Observer {
	if tell == nil {
		tell = func(string) {}
	}
	if show == nil {
		show = func(time.Time, View) {}
	}
	ctx, stop := context.WithCancel(ctx)
	return &Observer{
		cluster: c, namespace: namespace, ttl: ttl, follower: follow(ctx, c.Kube, namespace, "app="+WorkerName), stop: stop, tell: tell, show: show,
		history: sections.NewHistory(), ready: make(map[string]bool), ended: make(map[string]time.Time),
	}
}

// Close ends the watching.
func (o *Observer) Close() {
	o.stop()
	for range o.follower.arrivals {
		// Until the goroutines have ended.
	}
}

// Report judges everything that was seen so far.
func (o *Observer) Report() sections.Report { return o.history.Check() }

// Holding gives the sections that are under way, by key.
func (o *Observer) Holding() map[string]sections.Section { return o.history.Holding() }

// LivePods is how many workers have started and not ended.
func (o *Observer) LivePods() int { return len(o.ready) - len(o.ended) }

// AtWork waits until so many workers live, and so many further sections have ended.
func (o *Observer) AtWork(ctx context.Context, pods, further int) error {
	before := o.Report().Sections
	return o.Until(ctx, fmt.Sprintf("%d workers live and %d further sections have ended", pods, further), func() bool {
		return o.LivePods() >= pods && o.Report().Sections >= before+further
	})
}

// KillHolder kills a pod that holds locks and waits until each of its keys has a new holder. It returns how long the longest one was without
// a holder, counted from the last sign of life of the dead pod, which is what a user waits. It is an error if that took longer than
// the TTL and two seconds, counted from the end of the pod's log: until then it may have renewed.
func (o *Observer) KillHolder(ctx context.Context) (time.Duration, error) {
	for range killTries {
		if err := o.Until(ctx, "somebody holds a lock", func() bool { return o.victim() != "" }); err != nil {
			return 0, err
		}
		victim := o.victim()
		o.tell("killing " + victim + " while it holds a lock")
		o.history.Alive(victim, o.clock.at(time.Now()))
		err := o.cluster.Clientset.CoreV1().Pods(o.namespace).Delete(ctx, victim, *metav1.NewDeleteOptions(0))
		if err != nil {
			return 0, fmt.Errorf("killing the pod: %w", err)
		}
		if err := o.Until(ctx, victim+" is dead", func() bool { return !o.ended[victim].IsZero() }); err != nil {
			return 0, err
		}
		orphans := o.history.OpenOf(victim)
		if len(orphans) == 0 {
			o.tell("it died between two sections and held nothing; once more")
			continue
		}
		return o.takeOver(ctx, victim, orphans)
	}
	return 0, fmt.Errorf("no pod died holding a lock in %d tries", killTries)
}

// victim is the pod that holds most keys now.
func (o *Observer) victim() string {
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
func (o *Observer) takeOver(ctx context.Context, victim string, orphans []sections.Section) (time.Duration, error) {
	var names []string
	for _, orphan := range orphans {
		names = append(names, orphan.Key)
	}
	err := o.Until(ctx, "somebody takes over "+strings.Join(names, ", "), func() bool {
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
		o.tell(fmt.Sprintf("%s was taken over by %s after %.1f s (TTL %s), token %s after %s", orphan.Key, next.Pod, took.Seconds(), o.ttl, next.Token, orphan.Token))
		if late := next.Start - o.clock.at(o.ended[victim]); late > o.ttl+2*time.Second {
			return 0, fmt.Errorf("%s was taken over %.1f s after its holder was dead, the limit is %s", orphan.Key, late.Seconds(), o.ttl+2*time.Second)
		}
		longest = max(longest, took)
	}
	return longest, nil
}

// Judge returns everything that is wrong with what was seen: overlaps, tokens that did not grow, records that make no sense, workers that
// crashed.
func (o *Observer) Judge(ctx context.Context) error {
	report := o.Report()
	var problems []error
	for _, sentence := range slices.Concat(report.Overlaps, report.Regressions, report.Malformed) {
		problems = append(problems, errors.New(sentence))
	}
	restarted, err := o.follower.restarts(ctx)
	if err != nil {
		problems = append(problems, err)
	}
	if len(restarted) > 0 {
		problems = append(problems, fmt.Errorf("workers crashed: %v", restarted))
	}
	if report.Lost > 0 {
		// A machine that is too busy to renew in time; the sections ended before the next holder came, which is what counts.
		o.tell(fmt.Sprintf("%d sections lost their lock and stopped", report.Lost))
	}
	if len(o.warnings) > 0 {
		o.tell(fmt.Sprintf("the workers logged %d warnings, the last: %s", len(o.warnings), o.warnings[len(o.warnings)-1]))
	}
	return errors.Join(problems...)
}

// Until takes in log lines and shows who holds what, until done says so.
func (o *Observer) Until(ctx context.Context, what string, done func() bool) error {
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
			o.display(now)
		case <-limit.C:
			return fmt.Errorf("waited %s in vain until %s", stepLimit, what)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// take adds one line to what is known.
func (o *Observer) take(a arrival) error {
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

func (o *Observer) display(now time.Time) {
	report := o.Report()
	view := View{Sections: report.Sections, Overlaps: len(report.Overlaps), Pods: o.LivePods()}
	at := o.clock.at(now)
	for _, s := range o.history.Holding() {
		row := Row{Key: s.Key, Pod: s.Pod, Token: s.Token.String(), Held: max(0, at-s.Start), Dead: !o.ended[s.Pod].IsZero()}
		view.Rows = append(view.Rows, row)
	}
	slices.SortFunc(view.Rows, func(a, b Row) int { return strings.Compare(a.Key, b.Key) })
	o.show(now, view)
}
