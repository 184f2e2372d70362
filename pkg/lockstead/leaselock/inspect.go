// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// Inspect reads the Lease, for people.
func (d *Driver) Inspect(ctx context.Context, key driver.Key) (driver.Holding, error) {
	const op = "inspect"
	s, err := d.space(op, key.Prefix)
	if err != nil {
		return driver.Holding{}, err
	}
	lease, err := d.read(ctx, op, leaseformat.Name(key.Prefix, key.Name), d.options.AttemptTimeout)
	if err != nil || lease == nil {
		return driver.Holding{}, err
	}
	record, err := leaseformat.Parse(lease)
	if err != nil {
		return driver.Holding{}, foreign(err)
	}
	return holding(record, s.see(record)), nil
}

// holding is what a record tells about its holder; nobody holds a Lease that this process has seen unchanged for its whole duration.
func holding(record leaseformat.Record, remaining time.Duration) driver.Holding {
	if remaining == 0 {
		return driver.Holding{}
	}
	return driver.Holding{
		Held: true, ID: record.ID, Owner: record.Owner, Since: record.Acquired, Remaining: remaining,
		Token: driver.Token{Epoch: record.Epoch, Sequence: record.Sequence()},
	}
}

// List reads the Leases of the prefix by their label: see driver.Lister. Leases that carry the label and are no locks are left out.
func (d *Driver) List(ctx context.Context, req driver.ListRequest) (driver.ListPage, error) {
	const op = "list"
	s, err := d.space(op, req.Prefix)
	if err != nil {
		return driver.ListPage{}, err
	}
	options := metav1.ListOptions{LabelSelector: leaseformat.PrefixSelector(req.Prefix), Limit: int64(req.Limit), Continue: req.Cursor}
	ask := func(ctx context.Context) (*coordinationv1.LeaseList, error) { return d.leases.List(ctx, options) }
	leases, err := attempt(ctx, d, op, false, d.options.AttemptTimeout, ask)
	if again := goOn(err); again != "" {
		options.Continue = again
		leases, err = attempt(ctx, d, op, false, d.options.AttemptTimeout, ask)
	}
	if err != nil {
		return driver.ListPage{}, d.unexpected(op, false, err)
	}
	page := driver.ListPage{Next: leases.Continue}
	for i := range leases.Items {
		record, err := leaseformat.Parse(&leases.Items[i])
		if err != nil || record.Prefix != req.Prefix {
			continue
		}
		if held := holding(record, s.see(record)); held.Held {
			page.Held = append(page.Held, driver.HeldKey{Name: record.Key, Holding: held})
		}
	}
	return page, nil
}

// goOn is the cursor that an API server gives in the place of one whose version it has forgotten: from the same name on, at the present version.
func goOn(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

const (
	forcedOwner = "taken away by force"
	// forcedFor is how long the key stays held if the Lease cannot be deleted after it was taken away.
	forcedFor = leaseformat.MinDuration
)

// ForceRelease takes the Lease over, whatever is left of it, and deletes it: see driver.ForceReleaser. The first write makes the fence, and a holder whose
// watch runs is told by it.
func (d *Driver) ForceRelease(ctx context.Context, req driver.ForceReleaseRequest) (driver.ForcedRelease, error) {
	const op = "force-release"
	s, err := d.space(op, req.Key.Prefix)
	if err != nil {
		return driver.ForcedRelease{}, err
	}
	name, epoch := leaseformat.Name(req.Key.Prefix, req.Key.Name), d.epoch.Load()
	var id [16]byte
	_, _ = rand.Read(id[:])
	acquisition := acquisitionOf(driver.AcquireRequest{Key: req.Key, ID: hex.EncodeToString(id[:]), TTL: forcedFor, Owner: forcedOwner}, epoch)
	for range acquireRounds {
		held, lease, err := d.holder(ctx, op, s, name, req.ID)
		if err != nil {
			return driver.ForcedRelease{}, err
		}
		update, err := leaseformat.TakeOver(lease, acquisition)
		if err != nil {
			return driver.ForcedRelease{}, err
		}
		taken, err := attempt(ctx, d, op, true, d.options.AttemptTimeout, func(ctx context.Context) (*coordinationv1.Lease, error) {
			return d.leases.Update(ctx, update, metav1.UpdateOptions{})
		})
		if lostRace(err) {
			continue
		}
		if err != nil {
			return driver.ForcedRelease{}, d.unexpected(op, true, err)
		}
		forced := driver.ForcedRelease{Holding: held}
		if sequence, err := strconv.ParseUint(taken.ResourceVersion, 10, 64); err == nil {
			forced.Fence = driver.Token{Epoch: epoch, Sequence: sequence}
		}
		return forced, d.free(ctx, op, s, taken)
	}
	return driver.ForcedRelease{}, &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: "conflict", Err: errRaced}
}

// holder reads who is to lose the lock; id "" is whoever holds it.
func (d *Driver) holder(ctx context.Context, op string, s *space, name, id string) (driver.Holding, *coordinationv1.Lease, error) {
	lease, err := d.read(ctx, op, name, d.options.AttemptTimeout)
	if err != nil {
		return driver.Holding{}, nil, err
	}
	if lease == nil {
		return driver.Holding{}, nil, notHolder("there is no Lease %s/%s", d.namespace, name)
	}
	record, err := leaseformat.Parse(lease)
	if err != nil {
		return driver.Holding{}, nil, foreign(err)
	}
	held := holding(record, s.see(record))
	switch {
	case !held.Held:
		return driver.Holding{}, nil, notHolder("Lease %s/%s ran out", d.namespace, name)
	case id != "" && id != held.ID:
		return driver.Holding{}, nil, notHolder("%s holds Lease %s/%s now", holderName(record), d.namespace, name)
	}
	return held, lease, nil
}

// free deletes a Lease that was taken away. One that somebody has changed or deleted since is theirs.
func (d *Driver) free(ctx context.Context, op string, s *space, taken *coordinationv1.Lease) error {
	_, err := attempt(ctx, d, op, true, d.options.AttemptTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, d.leases.Delete(ctx, taken.Name, metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: &taken.UID, ResourceVersion: &taken.ResourceVersion},
			PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		})
	})
	if err != nil && !lostRace(err) {
		return &driver.StoreError{
			Outcome: driver.ErrUnknown, Op: op, Reason: "not-freed", Err: d.unexpected(op, true, err),
			Remedy: "the holder has lost the lock, and the key can be taken after " + forcedFor.String() + "; or ask again",
		}
	}
	s.forget(taken.UID)
	return nil
}
