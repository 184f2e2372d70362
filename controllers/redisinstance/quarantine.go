// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// quarantineMargin is added to the longest TTL, and to a time that is shown in whole seconds.
const quarantineMargin = time.Second

// quarantines measure how long this process has seen servers in quarantine. A quarantine has to pass as a whole on the process's own clock,
// which nobody can set: a process that takes over from another waits anew. They are safe for concurrent use.
type quarantines struct {
	clock clock.Clock
	mu    sync.Mutex
	begun map[types.UID]quarantine
}

// quarantine is one that this process knows: every loss of a server raises its epoch, so there is one for an epoch.
type quarantine struct {
	epoch uint64
	since clock.Instant
}

func newQuarantines(c clock.Clock) *quarantines {
	return &quarantines{clock: c, begun: map[types.UID]quarantine{}}
}

// remaining is how long the quarantine of a server for an epoch still lasts for this process, if it lasts length as a whole. It begins when it
// is asked for the first time.
func (q *quarantines) remaining(server types.UID, epoch uint64, length time.Duration) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	known, ok := q.begun[server]
	if !ok || known.epoch != epoch {
		known = quarantine{epoch: epoch, since: now}
		q.begun[server] = known
	}
	return max(0, length-now.Sub(known.since))
}

// forget drops a server that is not in quarantine.
func (q *quarantines) forget(server types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.begun, server)
}
