// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockprom_test

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstead/lockstead/pkg/adapters/lockprom"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

func Example() {
	ctx := context.Background()
	metrics := lockprom.New(&lockprom.Options{LockNamespace: "payments/billing"})
	registry := prometheus.NewRegistry() // the application's own
	registry.MustRegister(metrics)

	// lockstead.Open takes the same options as Options.Lock.
	client, err := lock.New(memlock.New(nil), "lk:{payments/billing}:", &lock.Options{Observers: []*lock.Observer{metrics.Observer()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	h, err := client.TryAcquire(ctx, "order:4711", 30*time.Second, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Release(ctx)
	_, _ = client.TryAcquire(ctx, "order:4711", 30*time.Second, 0) // held

	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if n := m.GetCounter().GetValue() + m.GetGauge().GetValue(); n > 0 {
				fmt.Print(family.GetName())
				for _, label := range m.GetLabel() {
					fmt.Printf(" %s=%s", label.GetName(), label.GetValue())
				}
				fmt.Println(":", n)
			}
		}
	}
	// Output:
	// lockstead_lock_acquire_total lock_namespace=payments/billing outcome=granted: 1
	// lockstead_lock_acquire_total lock_namespace=payments/billing outcome=held: 1
	// lockstead_locks_held lock_namespace=payments/billing: 1
}
