// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockprom

import (
	"context"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Observer is what to give to a lock client as one of lock.Options.Observers. Clients that are given the same Metrics are counted together.
func (m *Metrics) Observer() *lock.Observer {
	return &lock.Observer{
		AcquireStart: func(context.Context, lock.AcquireStartEvent) context.Context {
			m.inProgress.Inc()
			return nil
		},
		AcquireEnd: func(_ context.Context, e lock.AcquireEndEvent) {
			m.inProgress.Dec()
			m.acquires.WithLabelValues(string(e.Outcome)).Inc()
			m.wait.WithLabelValues(string(e.Outcome)).Observe(e.Waited.Seconds())
			if e.PassedOn {
				m.passed.Inc()
			}
			if e.Outcome == lock.OutcomeGranted {
				m.held.Inc()
			}
		},
		HoldEnd: func(_ context.Context, e lock.HoldEndEvent) {
			m.held.Dec()
			m.hold.Observe(e.Held.Seconds())
			if e.Reason != "" {
				m.lost.WithLabelValues(string(e.Reason)).Inc()
			}
		},
		ReleaseEnd: func(_ context.Context, e lock.ReleaseEndEvent) { m.releases.WithLabelValues(string(e.Outcome)).Inc() },
		Renew: func(_ context.Context, e lock.RenewEvent) {
			m.renewals.WithLabelValues(string(e.Outcome)).Inc()
			m.renew.Observe(e.Took.Seconds())
		},
		Cleanup: func(_ context.Context, e lock.CleanupEvent) { m.cleanups.WithLabelValues(string(e.Outcome)).Inc() },
		Fault:   func(_ context.Context, e lock.FaultEvent) { m.faults.WithLabelValues(e.Op, e.Reason).Inc() },
	}
}
