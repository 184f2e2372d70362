// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package memlock

import (
	"context"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

type subscription struct {
	driver *Driver
	key    driver.Key
	wake   chan struct{}
}

// Subscribe implements driver.Waiter.
func (d *Driver) Subscribe(ctx context.Context, key driver.Key) (driver.Subscription, error) {
	if err := ended(ctx, "subscribe"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &subscription{driver: d, key: key, wake: make(chan struct{}, 1)}
	if d.waiting[key] == nil {
		d.waiting[key] = make(map[*subscription]struct{})
	}
	d.waiting[key][s] = struct{}{}
	return s, nil
}

func (s *subscription) Wake() <-chan struct{} { return s.wake }

func (s *subscription) Close() {
	d := s.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting[s.key], s)
	if len(d.waiting[s.key]) == 0 {
		delete(d.waiting, s.key)
	}
}

func (s *subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
