// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// metricLabel has "<namespace>/<name>" of a RedisInstance, the one label of the operator's metrics.
const metricLabel = "redisinstance"

// metrics tell of the idempotency records of servers, all LockNamespaces together. They are safe for concurrent use.
type metrics struct{ used, granted, capacity *prometheus.GaugeVec }

func newMetrics(registry prometheus.Registerer) *metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "lockstead", Subsystem: "redisinstance", Name: name, Help: help}, []string{metricLabel})
		if registry != nil {
			registry.MustRegister(vec)
		}
		return vec
	}
	return &metrics{
		used:     gauge("record_bytes", "Bytes that idempotency records are charged with, at the last look."),
		granted:  gauge("record_granted_bytes", "Sum of the shares that LockNamespaces have for idempotency records."),
		capacity: gauge("record_capacity_bytes", "Bytes that all shares together may be; absent without maxmemory."),
	}
}

func (m *metrics) set(instance *v1alpha1.RedisInstance, r recordMemory) {
	name := nameOf(instance)
	m.used.WithLabelValues(name).Set(float64(r.used))
	m.granted.WithLabelValues(name).Set(float64(r.granted))
	if !r.known {
		m.capacity.DeleteLabelValues(name)
		return
	}
	m.capacity.WithLabelValues(name).Set(float64(r.capacity))
}

func (m *metrics) forget(instance *v1alpha1.RedisInstance) {
	for _, vec := range []*prometheus.GaugeVec{m.used, m.granted, m.capacity} {
		vec.DeleteLabelValues(nameOf(instance))
	}
}

func nameOf(instance *v1alpha1.RedisInstance) string { return instance.Namespace + "/" + instance.Name }
