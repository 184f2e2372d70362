// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/internal/testcluster"
)

const (
	lockTTL = 5 * time.Second
	// warmUp is how many sections are watched before a holder is killed, and coolDown how many after the take-over.
	warmUp   = 15
	coolDown = 10
)

// phase is the demo on one backend. The LockNamespace of both is the same; what differs is whether the platform team has set up
// Redis.
type phase struct {
	backend   string
	namespace string
	redis     bool
}

// phases are the backends in turn.
func phases() []phase {
	return []phase{
		{backend: "redis", namespace: "demo-redis", redis: true},
		{backend: "lease", namespace: "demo-lease"},
	}
}

// result is what the last line says.
type result struct {
	backend  string
	sections int
	takeOver time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("demo ok: backend=%s replicas=%d sections=%d overlaps=0 takeover=%.1fs", r.backend, testcluster.Replicas, r.sections, r.takeOver.Seconds())
}

// run does the whole phase.
func (p phase) run(ctx context.Context, cluster *testcluster.Cluster, out *console) (result, error) {
	out.step("backend %s: installing the operator with Helm", p.backend)
	if err := p.install(ctx, cluster, out); err != nil {
		return result{}, err
	}
	out.step("backend %s: starting %d replicas of the worker in namespace %s", p.backend, testcluster.Replicas, p.namespace)
	err := cluster.DeployWorkers(ctx, p.namespace, out.note, "--ttl="+lockTTL.String(), "--section-min=500ms", "--section-max=1500ms")
	if err != nil {
		return result{}, err
	}
	observer := cluster.Observe(ctx, p.namespace, lockTTL, out.note, func(now time.Time, v testcluster.View) {
		out.show(now, view{View: v, backend: p.backend})
	})
	defer observer.Close()
	err = observer.Until(ctx, fmt.Sprintf("%d replicas at work", testcluster.Replicas), func() bool {
		report := observer.Report()
		return observer.LivePods() >= testcluster.Replicas && report.Pods >= testcluster.Replicas && report.Sections >= warmUp
	})
	if err != nil {
		return result{}, err
	}
	if backends := observer.Report().Backends; !slices.Equal(backends, []string{p.backend}) {
		return result{}, fmt.Errorf("the workers lock with %q", backends)
	}
	out.step("backend %s: killing the pod that holds most locks", p.backend)
	takeOver, err := observer.KillHolder(ctx)
	if err != nil {
		return result{}, err
	}
	if err := observer.AtWork(ctx, testcluster.Replicas, coolDown); err != nil {
		return result{}, err
	}
	if err := observer.Judge(ctx); err != nil {
		return result{}, err
	}
	out.step("backend %s: stopping the workers", p.backend)
	return result{backend: p.backend, sections: observer.Report().Sections, takeOver: takeOver}, cluster.DeleteWorkers(ctx, p.namespace)
}

func (p phase) install(ctx context.Context, cluster *testcluster.Cluster, out *console) error {
	if !p.redis {
		return cluster.Install(ctx, testcluster.NoRedisValues()...)
	}
	values, err := cluster.RedisValues(ctx)
	if err != nil {
		return err
	}
	if err := cluster.Install(ctx, values...); err != nil {
		return err
	}
	instance := client.ObjectKey{Namespace: testcluster.OperatorNamespace, Name: testcluster.InstanceName}
	return cluster.WaitReady(ctx, testcluster.Kind("RedisInstance"), instance, 2*time.Minute, out.note)
}
