// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
)

// fallbackDriver warns once that locks are kept in Leases.
type fallbackDriver struct {
	*leaselock.Driver

	warning sync.Once
	log     *slog.Logger
	binding *binding.Binding
}

var (
	_ driver.Waiter = (*fallbackDriver)(nil)
	_ driver.Passer = (*fallbackDriver)(nil)
)

func (d *fallbackDriver) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	d.warning.Do(func() {
		d.log.WarnContext(ctx, "locks are kept in Kubernetes Leases, not in Redis",
			"lockNamespace", d.binding.LockNamespace, "condition", d.binding.Lease.FallbackCondition, "fix", d.binding.Lease.FallbackFix)
	})
	return d.Driver.Acquire(ctx, req)
}

func leaseBackend(o Options, b *binding.Binding) (*backend, error) {
	config := o.RESTConfig
	if config == nil {
		var err error
		if config, err = rest.InClusterConfig(); err != nil {
			if errors.Is(err, rest.ErrNotInCluster) {
				return nil, fmt.Errorf("lockstead: the %s keeps locks in Kubernetes Leases, and this process does not run in a pod: give Options.RESTConfig", b)
			}
			return nil, fmt.Errorf("lockstead: the %s keeps locks in Kubernetes Leases, which needs the token of the pod's service account "+
				"(automountServiceAccountToken must not be false) or Options.RESTConfig: %w", b, err)
		}
	}
	d, err := leaselock.New(config, b.Namespace(), &leaselock.Options{
		Epoch: b.Lease.Epoch, LockNamespace: b.LockNamespace, Logger: o.Logger, Clock: o.Clock,
	})
	if err != nil {
		return nil, err
	}
	return &backend{
		driver: &fallbackDriver{Driver: d, log: o.Logger, binding: b},
		update: func(now *binding.Binding) { d.RaiseEpoch(now.Lease.Epoch) },
		close:  d.Close,
	}, nil
}
