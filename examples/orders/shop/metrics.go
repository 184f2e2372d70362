// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package shop

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

// Metrics count orders, and what becomes of requests with a key. Register them once.
type Metrics struct {
	orders, requests, degraded *prometheus.CounterVec
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics makes metrics that are not registered yet.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		orders:   counter("shop_orders_total", "Executions that placed an order (created), or found it placed by an earlier execution (found).", "result"),
		requests: counter("shop_idempotency_requests_total", "Requests with an Idempotency-Key, by route and what became of them.", "route", "outcome"),
		degraded: counter("shop_idempotency_degraded_total", "Faults that left something of the guard out, by route and reason.", "route", "reason"),
	}
	m.orders.WithLabelValues("created")
	m.orders.WithLabelValues("found")
	return m
}

// Observer is for idempotency.Options.Observer.
func (m *Metrics) Observer() *idempotency.Observer {
	return &idempotency.Observer{
		Answered: func(_ context.Context, e idempotency.AnsweredEvent) {
			m.requests.WithLabelValues(e.Route, string(e.Outcome)).Inc()
		},
		Degraded: func(_ context.Context, e idempotency.DegradedEvent) {
			m.degraded.WithLabelValues(e.Route, string(e.Reason)).Inc()
		},
	}
}

func (m *Metrics) order(created bool) {
	result := "found"
	if created {
		result = "created"
	}
	m.orders.WithLabelValues(result).Inc()
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	m.orders.Describe(descs)
	m.requests.Describe(descs)
	m.degraded.Describe(descs)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.orders.Collect(metrics)
	m.requests.Collect(metrics)
	m.degraded.Collect(metrics)
}
