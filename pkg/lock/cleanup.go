// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// cleanup releases, by acquisition id and in the background, what the store may have recorded although no caller holds it.
type cleanup struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	pending int
	closed  bool
	work    sync.WaitGroup
}

const (
	// maxCleanups bounds the background releases of a client; when a store fails for long, the TTL serves the rest.
	maxCleanups      = 256
	cleanupFirst     = 50 * time.Millisecond
	cleanupLongest   = 5 * time.Second
	cleanupNotHolder = 5
)

func (u *cleanup) init(c *Client) {
	u.client = c
	u.ctx, u.cancel = context.WithCancel(context.Background())
}

// release starts to release the acquisition, for at most ttl: then the record has run out by itself.
func (u *cleanup) release(key, id string, ttl time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || u.pending >= maxCleanups {
		u.client.log.Warn("no background release of a lock with an unknown outcome; it ends by its TTL", "key", key, "ttl", ttl)
		u.tell(CleanupEvent{Key: key, Outcome: OutcomeDropped})
		return
	}
	u.pending++
	u.work.Go(func() {
		defer func() {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.pending--
		}()
		start := u.client.clock.Now()
		outcome := u.run(key, id, start.Add(ttl))
		u.tell(CleanupEvent{Key: key, Outcome: outcome, Took: u.client.clock.Now().Sub(start)})
	})
}

// tell does not wait for the observers, since close waits for what is under way.
func (u *cleanup) tell(e CleanupEvent) {
	if o := &u.client.observers; !o.none() {
		go o.cleanup(context.Background(), e)
	}
}

// run repeats the release until the record has run out at end, with a growing pause. The store's answer "not the holder" is not final at first: the lost acquire may
// still be on its way, and be applied after the release that overtook it.
func (u *cleanup) run(key, id string, end clock.Instant) Outcome {
	c := u.client
	notHolder := 0
	for pause := cleanupFirst; c.clock.Now() < end; pause = min(2*pause, cleanupLongest) {
		ctx, cancel := context.WithTimeout(u.ctx, c.options.ReleaseTimeout)
		err := c.driver.Release(ctx, driver.ReleaseRequest{Key: c.qualify(key), ID: id})
		cancel()
		switch {
		case err == nil:
			c.log.Debug("lock with an unknown outcome released", "key", key)
			c.queues.wake(key)
			return OutcomeReleased
		case errors.Is(err, driver.ErrNotHolder):
			if notHolder++; notHolder == cleanupNotHolder {
				return OutcomeNotHolder
			}
		case !c.observers.none() && u.ctx.Err() == nil:
			go c.observers.fault(context.Background(), key, "release", tellContexts(context.Background(), "release", err))
		}
		timer := c.clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-u.ctx.Done():
			timer.Stop()
			return OutcomeDropped
		}
	}
	c.log.Debug("lock with an unknown outcome left to its TTL", "key", key)
	return OutcomeExpired
}

// close waits for the releases under way until ctx ends, then breaks them off.
func (u *cleanup) close(ctx context.Context) error {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	done := make(chan struct{})
	go func() {
		u.work.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("lock: background releases were broken off, their locks end by their TTL: %w", driver.ContextError(ctx))
	}
	u.cancel()
	<-done
	return err
}
