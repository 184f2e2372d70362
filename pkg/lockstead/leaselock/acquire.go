// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// acquireRounds bounds how often one acquire starts again because the Lease came or went between two of its requests. Each
// round has been refused definitely.
const acquireRounds = 3

// Acquire creates the Lease, or takes over one that this process has seen unchanged for its whole duration.
func (d *Driver) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	const op = "acquire"
	if _, err := leaseformat.Seconds(req.TTL); err != nil {
		return driver.Grant{}, &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: "refused", Err: err}
	}
	s, err := d.space(op, req.Key.Prefix)
	if err != nil {
		return driver.Grant{}, err
	}
	name := leaseformat.Name(req.Key.Prefix, req.Key.Name)
	d.owners.begin(req, name, d.clock.Now())
	epoch := d.epoch.Load()
	lease, err := d.take(ctx, s, name, req, epoch)
	return d.grant(op, name, req, epoch, lease, err)
}

// grant notes the outcome of an acquiring write.
func (d *Driver) grant(op, name string, req driver.AcquireRequest, epoch uint64, lease *coordinationv1.Lease, err error) (driver.Grant, error) {
	if err != nil {
		if errors.Is(err, driver.ErrUnknown) {
			d.owners.unanswered(req.ID)
		} else {
			d.owners.forget(req.ID)
		}
		return driver.Grant{}, err
	}
	sequence, err := strconv.ParseUint(lease.ResourceVersion, 10, 64)
	tell(d.owners.granted(req.ID, lease, sequence))
	if err != nil || sequence == 0 {
		// The Lease is there, but without a token it is no grant: the client releases what is unknown by its id.
		d.owners.unanswered(req.ID)
		return driver.Grant{}, &driver.StoreError{
			Outcome: driver.ErrUnknown, Op: op, Reason: "token",
			Err:    fmt.Errorf("resourceVersion %q of Lease %s/%s is not a number from 1 to 2^64-1", lease.ResourceVersion, d.namespace, name),
			Remedy: "fencing tokens need an API server whose resource versions are numbers", Lasting: true,
		}
	}
	return driver.Grant{Token: driver.Token{Epoch: epoch, Sequence: sequence}, TTL: req.TTL}, nil
}

// take makes the acquiring write and returns the Lease as it was written.
func (d *Driver) take(ctx context.Context, s *space, name string, req driver.AcquireRequest, epoch uint64) (*coordinationv1.Lease, error) {
	const op = "acquire"
	budget := clock.AttemptLimit(req.TTL)
	acquisition := acquisitionOf(req, epoch)
	for range acquireRounds {
		wanted, err := leaseformat.Create(d.namespace, acquisition)
		if err != nil {
			return nil, err
		}
		created, err := attempt(ctx, d, op, true, budget, func(ctx context.Context) (*coordinationv1.Lease, error) {
			return d.leases.Create(ctx, wanted, metav1.CreateOptions{})
		})
		if err == nil {
			s.received(created)
			return created, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, d.unexpected(op, true, err)
		}
		found, err := d.read(ctx, op, name, budget)
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		record, err := leaseformat.Parse(found)
		if err != nil {
			return nil, foreign(err)
		}
		remaining := s.see(record)
		if record.ID == req.ID {
			// Our own create, of which something on the way made two.
			return found, nil
		}
		if remaining > 0 {
			return nil, &driver.HeldError{Key: req.Key.Name, Owner: record.Owner, Remaining: remaining}
		}
		takeOver, err := leaseformat.TakeOver(found, acquisition)
		if err != nil {
			return nil, err
		}
		taken, err := attempt(ctx, d, op, true, budget, func(ctx context.Context) (*coordinationv1.Lease, error) {
			return d.leases.Update(ctx, takeOver, metav1.UpdateOptions{})
		})
		if err == nil {
			s.received(taken)
			return taken, nil
		}
		if !lostRace(err) {
			return nil, d.unexpected(op, true, err)
		}
	}
	// It was there each time: somebody else holds it, or many take turns.
	return nil, &driver.HeldError{Key: req.Key.Name}
}

func acquisitionOf(req driver.AcquireRequest, epoch uint64) leaseformat.Acquisition {
	return leaseformat.Acquisition{
		Prefix: req.Key.Prefix, Key: req.Key.Name, ID: req.ID, Duration: req.TTL, Owner: req.Owner, Epoch: epoch, Now: time.Now(), //nolint:forbidigo // for people
	}
}

// lostRace tells that a precondition failed: the Lease was changed or deleted since it was read.
func lostRace(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// read returns nil without an error when there is no such Lease.
func (d *Driver) read(ctx context.Context, op, name string, timeout time.Duration) (*coordinationv1.Lease, error) {
	lease, err := attempt(ctx, d, op, false, timeout, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return d.leases.Get(ctx, name, metav1.GetOptions{})
	})
	switch {
	case err == nil:
		return lease, nil
	case apierrors.IsNotFound(err):
		return nil, nil
	default:
		return nil, d.unexpected(op, false, err)
	}
}

// unexpected makes sure that a definite answer which has no meaning here still is one of the driver's outcomes.
func (d *Driver) unexpected(op string, write bool, err error) error {
	if _, ok := errors.AsType[*driver.StoreError](err); ok {
		return err
	}
	return failure{op: op, write: write, sent: true, err: err}.classify(d.remedies)
}

// foreign is the outcome for a Lease that is not ours, or no longer.
func foreign(err error) error {
	return fmt.Errorf("%w: %w: it is left alone; rename or delete it, or use another key", driver.ErrForeign, err)
}
