// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package memlock

import (
	"context"
	"errors"
	"slices"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

var errTakenAway = errors.New("the lock was taken away by hand")

// List implements driver.Lister: the keys in their order, and the cursor is the last one.
func (d *Driver) List(ctx context.Context, req driver.ListRequest) (driver.ListPage, error) {
	if err := ended(ctx, "list"); err != nil {
		return driver.ListPage{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	var names []string
	for key, r := range d.records {
		if key.Prefix == req.Prefix && key.Name > req.Cursor && now < r.expires {
			names = append(names, key.Name)
		}
	}
	slices.Sort(names)
	var page driver.ListPage
	if len(names) > req.Limit {
		names = names[:req.Limit]
		page.Next = names[len(names)-1]
	}
	for _, name := range names {
		r := d.records[driver.Key{Prefix: req.Prefix, Name: name}]
		page.Held = append(page.Held, driver.HeldKey{Name: name, Holding: r.holding(now)})
	}
	return page, nil
}

// ForceRelease implements driver.ForceReleaser.
func (d *Driver) ForceRelease(ctx context.Context, req driver.ForceReleaseRequest) (driver.ForcedRelease, error) {
	if err := ended(ctx, "force-release"); err != nil {
		return driver.ForcedRelease{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	r, held := d.holder(req.Key, now)
	if !held || (req.ID != "" && r.id != req.ID) {
		return driver.ForcedRelease{}, driver.ErrNotHolder
	}
	d.sequence++
	d.free(req.Key)
	if r.onLost != nil {
		// In a goroutine of its own, since the callee may call the driver.
		go r.onLost(errTakenAway)
	}
	return driver.ForcedRelease{Holding: r.holding(now), Fence: driver.Token{Epoch: 1, Sequence: d.sequence}}, nil
}
