// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leasereaper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// Name of the controller, in logs and metrics.
const Name = "leasereaper"

// Controller deletes abandoned Leases.
type Controller struct {
	client client.Client
	clock  clock.Clock

	mu           sync.Mutex
	observations leaseformat.Observations
	// uids are those of the Leases by name, to forget what is gone.
	uids map[types.NamespacedName]types.UID
}

// New returns a Controller. Reconciliations begin when the process becomes the leader, and so do its observations.
func New(c client.Client, clock clock.Clock) *Controller {
	return &Controller{client: c, clock: clock, uids: map[types.NamespacedName]types.UID{}}
}

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;delete

// Register adds the controller to a manager, whose cache may be limited to the Leases of locks.
func (c *Controller) Register(mgr manager.Manager) error {
	ours := predicate.NewPredicateFuncs(func(object client.Object) bool {
		lease, ok := object.(*coordinationv1.Lease)
		return ok && leaseformat.Ours(lease)
	})
	err := builder.ControllerManagedBy(mgr).Named(Name).
		For(&coordinationv1.Lease{}, builder.WithPredicates(ours)).
		Complete(c)
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", Name, err)
	}
	return nil
}

// Reconcile looks at one Lease.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	// A version is counted from after it was read. The cache may have had it for longer, which makes the wait longer and never shorter.
	lease := &coordinationv1.Lease{}
	err := c.client.Get(ctx, request.NamespacedName, lease)
	if apierrors.IsNotFound(err) {
		c.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get Lease %s: %w", request, err)
	}
	held, err := leaseformat.Parse(lease)
	if errors.Is(err, leaseformat.ErrNotOurs) {
		c.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read Lease %s: %w", request, err)
	}
	if wait := c.see(request.NamespacedName, held); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := c.delete(ctx, lease, held); err != nil {
		return reconcile.Result{}, err
	}
	c.forget(request.NamespacedName)
	return reconcile.Result{}, nil
}

// delete removes exactly the version that was observed. A Lease that changed or went meanwhile is not an error: its change leads to another
// reconciliation.
func (c *Controller) delete(ctx context.Context, lease *coordinationv1.Lease, held leaseformat.Record) error {
	preconditions := client.Preconditions{UID: &held.UID, ResourceVersion: &held.ResourceVersion}
	err := c.client.Delete(ctx, lease, preconditions)
	switch {
	case err == nil:
		log.FromContext(ctx).Info("Deleted the Lease of a lock whose holder is gone", "duration", held.Duration.String(), "holder", held.Owner)
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	default:
		return fmt.Errorf("delete Lease %s: %w", client.ObjectKeyFromObject(lease), err)
	}
}

// see records the version of a Lease and returns how long it must stay unchanged until it counts as abandoned.
func (c *Controller) see(name types.NamespacedName, held leaseformat.Record) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uid, known := c.uids[name]; known && uid != held.UID {
		c.observations.Forget(uid)
	}
	c.uids[name] = held.UID
	return c.observations.See(held, c.clock.Now())
}

func (c *Controller) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uid, known := c.uids[name]; known {
		c.observations.Forget(uid)
		delete(c.uids, name)
	}
}
