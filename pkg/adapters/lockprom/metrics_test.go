// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockprom_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/lockstead/lockstead/pkg/adapters/lockprom"
	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

// gather returns what a real registry has, by name.
func gather(t testing.TB, registry *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]*dto.MetricFamily)
	for _, family := range families {
		byName[family.GetName()] = family
	}
	return byName
}

// value is that of a counter or gauge, or the count of a histogram, with the labels "name=value,…" in the order of their names.
func value(t testing.TB, registry *prometheus.Registry, name, labels string) float64 {
	t.Helper()
	for _, m := range gather(t, registry)[name].GetMetric() {
		var pairs []string
		for _, l := range m.GetLabel() {
			pairs = append(pairs, l.GetName()+"="+l.GetValue())
		}
		if strings.Join(pairs, ",") == labels {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	t.Errorf("there is no %s{%s}", name, labels)
	return 0
}

// row is one metric as the page documents it.
type row struct{ kind, labels string }

// documented reads the tables of a page: the metrics by name, and the words of outcomes and reasons.
func documented(t *testing.T, name string) (metrics map[string]row, outcomes, reasons []string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	metrics = make(map[string]row)
	table := ""
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		name := strings.Trim(cells[0], "`")
		switch {
		case len(cells) < 2:
			table = ""
		case table == "":
			table = name
		case strings.HasPrefix(name, "---"):
		case table == "metric":
			labels := strings.Split(strings.ReplaceAll(strings.ReplaceAll(cells[2], "`", ""), " ", ""), ",")
			metrics[name] = row{cells[1], strings.Join(labels, ",")}
		case table == "outcome":
			outcomes = append(outcomes, name)
		case table == "reason of a loss":
			reasons = append(reasons, name)
		}
	}
	return metrics, outcomes, reasons
}

func TestThePageListsEveryMetric(t *testing.T) {
	metrics := lockprom.New(nil)
	jobs := lockprom.NewJobs(nil, nil)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics, jobs)
	o := metrics.Observer()
	ctx := t.Context()
	for range 2 {
		jobs.OnOutcome(ctx, exclusive.Event{Job: "k", Outcome: exclusive.Ran})
		o.AcquireStart(ctx, lock.AcquireStartEvent{Key: "k"})
		o.AcquireEnd(ctx, lock.AcquireEndEvent{Key: "k", Outcome: lock.OutcomeGranted, PassedOn: true})
		o.HoldEnd(ctx, lock.HoldEndEvent{Key: "k", Reason: lock.LossDeadline})
		o.Renew(ctx, lock.RenewEvent{Key: "k", Outcome: lock.OutcomeRenewed})
		o.ReleaseEnd(ctx, lock.ReleaseEndEvent{Key: "k", Outcome: lock.OutcomeReleased})
		o.Cleanup(ctx, lock.CleanupEvent{Key: "k", Outcome: lock.OutcomeReleased})
		o.Fault(ctx, lock.FaultEvent{Key: "k", Op: "acquire", Reason: "timeout", Err: errors.New("k")})
	}
	page, outcomes, reasons := documented(t, "metrics.md")
	_, jobOutcomes, _ := documented(t, "jobs.md")
	if len(page) == 0 || len(outcomes) == 0 || len(reasons) == 0 {
		t.Fatalf("the page has %d metrics, %d outcomes and %d reasons", len(page), len(outcomes), len(reasons))
	}
	there := gather(t, registry)
	words := map[string][]string{}
	for name, family := range there {
		want, ok := page[name]
		if !ok {
			t.Errorf("docs/metrics.md does not list %s", name)
			continue
		}
		if kind := strings.ToLower(family.GetType().String()); kind != want.kind {
			t.Errorf("docs/metrics.md says that %s is a %s, it is a %s", name, want.kind, kind)
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
				word := l.GetName()
				if strings.HasPrefix(name, "lockstead_job_") {
					word = "job's " + word
				}
				words[word] = append(words[word], l.GetValue())
				if l.GetValue() == "k" {
					t.Errorf("%s has the key as label %s", name, l.GetName())
				}
			}
			if got := strings.Join(labels, ","); got != want.labels {
				t.Errorf("docs/metrics.md says that %s has labels %q, it has %q", name, want.labels, got)
			}
		}
	}
	for name := range page {
		// Those of the operator are tested with its controllers.
		if there[name] == nil && !strings.HasPrefix(name, "lockstead_redisinstance_") {
			t.Errorf("docs/metrics.md lists %s, which does not exist", name)
		}
	}
	same := func(what string, got, want []string) {
		t.Helper()
		slices.Sort(got)
		slices.Sort(want)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s are %q, docs/ lists %q", what, got, want)
		}
	}
	same("outcomes of jobs", words["job's outcome"], jobOutcomes)
	same("outcomes", words["outcome"], outcomes)
	same("reasons", words["reason"], append(reasons, "timeout"))
}

// stopping is a store that fails with what a test says.
type stopping struct {
	*memlock.Driver
	fault error
}

func (s *stopping) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	if s.fault != nil {
		return driver.Grant{}, s.fault
	}
	return s.Driver.Acquire(ctx, req)
}

func TestAClientIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := lockprom.New(&lockprom.Options{Backend: "memory", LockNamespace: "test/one", NativeHistograms: true})
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(metrics)
		cl := clock.Monotonic()
		store := &stopping{Driver: memlock.New(&memlock.Options{Clock: cl})}
		c, err := lock.New(store, "lk:{test/one}:", &lock.Options{Clock: cl, Observers: []*lock.Observer{metrics.Observer()}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		want := func(name, labels string, want float64) {
			t.Helper()
			synctest.Wait()
			if labels != "" {
				labels = "," + labels
			}
			if got := value(t, registry, "lockstead_"+name, "backend=memory,lock_namespace=test/one"+labels); got != want {
				t.Errorf("%s{%s} is %v, want %v", name, labels, got, want)
			}
		}
		h, err := c.TryAcquire(t.Context(), "k", 10*time.Second, 0)
		if err != nil {
			t.Fatal(err)
		}
		want("locks_held", "", 1)
		want("lock_acquire_total", "outcome=granted", 1)
		want("lock_acquire_total", "outcome=held", 0)
		_, _ = c.TryAcquire(t.Context(), "k", 0, time.Second)
		want("lock_acquire_total", "outcome=held", 1)
		want("lock_acquire_wait_seconds", "outcome=held", 1)
		if err := h.Renew(t.Context(), 0); err != nil {
			t.Error(err)
		}
		want("lock_renew_total", "outcome=renewed", 1)
		want("lock_renew_duration_seconds", "", 1)
		<-time.NewTimer(time.Minute).C
		want("locks_held", "", 0)
		want("lock_lost_total", "reason=deadline", 1)
		want("lock_hold_seconds", "", 1)
		_ = h.Release(t.Context())
		want("lock_release_total", "outcome=lost", 1)

		store.fault = &driver.StoreError{Outcome: driver.ErrUnknown, Op: "acquire", Reason: "timeout"}
		go func() { _, _ = c.TryAcquire(t.Context(), "k", time.Second, time.Minute) }()
		want("lock_acquire_total", "outcome=unknown", 1)
		want("lock_store_faults_total", "op=acquire,reason=timeout", 1)
		want("lock_acquires_in_progress", "", 0)
		<-time.NewTimer(time.Minute).C
		want("lock_cleanup_total", "outcome=not-holder", 1)

		for _, m := range gather(t, registry)["lockstead_lock_hold_seconds"].GetMetric() {
			if m.GetHistogram().GetSchema() == 0 || len(m.GetHistogram().GetBucket()) == 0 {
				t.Error("the histogram is not both native and classic")
			}
		}
	})
}

// Two clients of one program can be told apart, or counted together.
func TestMetricsOfSeveralClients(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, namespace := range []string{"a/one", "a/two"} {
		if err := registry.Register(lockprom.New(&lockprom.Options{LockNamespace: namespace})); err != nil {
			t.Errorf("metrics of %s: %v", namespace, err)
		}
	}
	if err := registry.Register(lockprom.New(&lockprom.Options{LockNamespace: "a/one"})); err == nil {
		t.Error("the same metrics were registered twice")
	}
	late := lockprom.New(nil)
	wrapped := prometheus.WrapRegistererWith(prometheus.Labels{"lock_namespace": "a/three"}, registry)
	if err := wrapped.Register(late); err != nil {
		t.Errorf("labels given by a registerer: %v", err)
	}
}
