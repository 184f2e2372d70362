// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"fmt"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// Inspect tells who holds the key: see driver.Driver.
func (d *Driver) Inspect(ctx context.Context, key driver.Key) (driver.Holding, error) {
	op := d.operations.inspect
	// The mark is not sent: a request that only reads is never applied.
	reply, err := d.call(ctx, op, key, d.options.AttemptTimeout, []string{redisproto.LockKey(key.Prefix, key.Name)}, &mark{})
	if err != nil {
		return driver.Holding{}, err
	}
	holding, err := decodeInspect(reply)
	if err != nil {
		return driver.Holding{}, malformed(op.name, err)
	}
	return holding, nil
}

// List tells which keys of a lock namespace are held: see driver.Lister. Keys that were taken before the server had a version that keeps the list
// are on it from their next renewal or acquire on, as are those that were taken before the user had the right to the list.
func (d *Driver) List(ctx context.Context, req driver.ListRequest) (driver.ListPage, error) {
	op := d.operations.list
	key := driver.Key{Prefix: req.Prefix}
	reply, err := d.call(ctx, op, key, d.options.AttemptTimeout, []string{redisproto.SequenceKey(req.Prefix)}, &mark{}, req.Cursor, req.Limit)
	if err != nil {
		return driver.ListPage{}, err
	}
	page, err := decodeList(reply)
	if err != nil {
		return driver.ListPage{}, malformed(op.name, err)
	}
	return page, nil
}

// ForceRelease takes the lock away from its holder: see driver.ForceReleaser. It runs also when the server's memory is full, and when it is not armed.
func (d *Driver) ForceRelease(ctx context.Context, req driver.ForceReleaseRequest) (driver.ForcedRelease, error) {
	op := d.operations.forceRelease
	m := &mark{id: req.ID}
	reply, err := d.call(ctx, op, req.Key, d.options.AttemptTimeout, d.lockKeys(req.Key), m, m)
	if err != nil {
		return driver.ForcedRelease{}, err
	}
	forced, err := decodeForceRelease(reply)
	switch {
	case err != nil:
		return driver.ForcedRelease{}, malformed(op.name, err)
	case !forced.Holding.Held:
		return driver.ForcedRelease{}, fmt.Errorf("%s of lock %q: %w", op.name, req.Key.Name, driver.ErrNotHolder)
	}
	return forced, nil
}
