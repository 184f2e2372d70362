// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock

import (
	"context"
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// Pass updates the Lease on the version that this process wrote last, as a renewal does, to another acquisition. The Lease is not deleted, so the
// watches of other processes wake nobody.
func (d *Driver) Pass(ctx context.Context, req driver.PassRequest) (driver.Grant, error) {
	const op = "pass"
	to := req.To
	if _, err := leaseformat.Seconds(to.TTL); err != nil {
		return driver.Grant{}, &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: "refused", Err: err}
	}
	s, err := d.space(op, to.Key.Prefix)
	if err != nil {
		return driver.Grant{}, err
	}
	last, ranOut := d.owners.releasing(req.From, d.clock.Now())
	if ranOut {
		return driver.Grant{}, notHolder("it ran out before it was passed on")
	}
	name := leaseformat.Name(to.Key.Prefix, to.Key.Name)
	d.owners.begin(to, name, d.clock.Now())
	epoch := d.epoch.Load()
	passed, err := onOwnVersion(ctx, d, op, name, req.From, clock.AttemptLimit(to.TTL), last,
		func(ctx context.Context, own *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			update, err := leaseformat.TakeOver(own, acquisitionOf(to, epoch))
			if err != nil {
				return nil, err
			}
			return d.leases.Update(ctx, update, metav1.UpdateOptions{})
		})
	if errors.Is(err, driver.ErrNotHolder) {
		// Something on the way may have made two of the update: then the first one was applied, and its answer lost.
		passed, err = d.passedBefore(ctx, op, name, to, err)
	}
	if err == nil {
		s.received(passed)
	}
	if err == nil || (errors.Is(err, driver.ErrNotHolder) && last != nil) {
		d.owners.forget(req.From)
	}
	return d.grant(op, name, to, epoch, passed, err)
}

// passedBefore finds out whether a pass that was refused as by somebody else is the repetition of one that was applied.
func (d *Driver) passedBefore(ctx context.Context, op, name string, to driver.AcquireRequest, refused error) (*coordinationv1.Lease, error) {
	now, err := d.read(ctx, op, name, clock.AttemptLimit(to.TTL))
	if err != nil {
		return nil, &driver.StoreError{Outcome: driver.ErrUnknown, Op: op, Reason: "conflict", Err: errors.Join(refused, err)}
	}
	if now == nil || stillOurs(now, nil, to.ID) != nil {
		return nil, refused
	}
	return now, nil
}
