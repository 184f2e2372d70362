// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// errRaced is the fault of a conditional write that lost a second race against a stranger. It is safe to try again.
var errRaced = errors.New("somebody keeps changing the Lease")

// Renew updates the Lease on the version that this process wrote last. It never creates one.
func (d *Driver) Renew(ctx context.Context, req driver.RenewRequest) (driver.Renewal, error) {
	const op = "renew"
	if _, err := leaseformat.Seconds(req.TTL); err != nil {
		return driver.Renewal{}, &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: "refused", Err: err}
	}
	s, err := d.space(op, req.Key.Prefix)
	if err != nil {
		return driver.Renewal{}, err
	}
	sent := d.clock.Now()
	last, sequence, ranOut := d.owners.renewing(req.ID, req.TTL, sent)
	if ranOut {
		d.owners.forget(req.ID)
		return driver.Renewal{}, notHolder("it ran out before it was renewed")
	}
	name := leaseformat.Name(req.Key.Prefix, req.Key.Name)
	renewed, err := onOwnVersion(ctx, d, op, name, req.ID, clock.AttemptLimit(req.TTL), last,
		func(ctx context.Context, own *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			update, err := leaseformat.Renew(own, req.TTL, sequenceOf(own, sequence), time.Now()) //nolint:forbidigo // for people
			if err != nil {
				return nil, err
			}
			return d.leases.Update(ctx, update, metav1.UpdateOptions{})
		})
	if err != nil {
		if errors.Is(err, driver.ErrNotHolder) {
			d.owners.forget(req.ID)
		}
		return driver.Renewal{}, err
	}
	s.received(renewed)
	d.owners.renewed(req.ID, renewed, req.TTL, sent)
	return driver.Renewal{TTL: req.TTL}, nil
}

// sequenceOf is the token's sequence as known here, else as the Lease tells it. For people.
func sequenceOf(own *coordinationv1.Lease, known uint64) uint64 {
	if known != 0 {
		return known
	}
	record, err := leaseformat.Parse(own)
	if err != nil {
		return 0
	}
	return record.Sequence()
}

// Release deletes the Lease on the version that this process wrote last.
func (d *Driver) Release(ctx context.Context, req driver.ReleaseRequest) error {
	const op = "release"
	s, err := d.space(op, req.Key.Prefix)
	if err != nil {
		return err
	}
	last, ranOut := d.owners.releasing(req.ID, d.clock.Now())
	name := leaseformat.Name(req.Key.Prefix, req.Key.Name)
	deleted, err := onOwnVersion(ctx, d, op, name, req.ID, d.options.AttemptTimeout, last,
		func(ctx context.Context, own *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			return own, d.leases.Delete(ctx, name, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &own.UID, ResourceVersion: &own.ResourceVersion},
				// The object is gone when the answer arrives, whatever the server's default is.
				PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
			})
		})
	if err != nil {
		if errors.Is(err, driver.ErrNotHolder) && last != nil {
			d.owners.forget(req.ID)
		}
		return err
	}
	d.owners.forget(req.ID)
	s.forget(deleted.UID)
	if ranOut {
		return notHolder("it ran out before it was released")
	}
	return nil
}

// onOwnVersion makes a conditional write on the version that is known to be ours. Without such a version, and once after the write lost a
// race, it reads the Lease and goes on only if that is the same object with our acquisition id: then the newer version is our own write whose
// answer was lost, or a stranger's annotation.
func onOwnVersion(
	ctx context.Context, d *Driver, op, name, id string, timeout time.Duration, own *coordinationv1.Lease,
	write func(context.Context, *coordinationv1.Lease) (*coordinationv1.Lease, error),
) (*coordinationv1.Lease, error) {
	for range 2 {
		if own != nil {
			answer, err := attempt(ctx, d, op, true, timeout, func(ctx context.Context) (*coordinationv1.Lease, error) {
				return write(ctx, own)
			})
			if err == nil {
				return answer, nil
			}
			if !lostRace(err) {
				return nil, d.unexpected(op, true, err)
			}
		}
		now, err := d.read(ctx, op, name, timeout)
		if err != nil {
			return nil, err
		}
		if now == nil {
			return nil, notHolder("there is no Lease %s/%s", d.namespace, name)
		}
		if err := stillOurs(now, own, id); err != nil {
			return nil, err
		}
		own = now
	}
	return nil, &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: "conflict", Err: errRaced}
}
