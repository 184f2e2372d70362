// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// Options are what a Driver can be told. The zero value, or nil, is ready to use.
type Options struct {
	// Epoch is the first part of every fencing token. Raise it after etcd was restored from a backup. Defaults to 0.
	Epoch uint64
	// AttemptTimeout bounds one request to the API server; a quarter of the TTL bounds it as well. Defaults to 5 s.
	AttemptTimeout time.Duration
	// LockNamespace is "<namespace>/<name>" of the LockNamespace, for the errors about missing rights. Defaults to none: then
	// the errors speak of the rights alone.
	LockNamespace string
	// RoleName is the Role that the operator makes for the LockNamespace, for the same errors. Defaults to "lockstead-<name of the
	// LockNamespace>".
	RoleName string
	// Logger gets a Warn record when the watch is interrupted and an Info record when it is back. Defaults to no logging.
	Logger *slog.Logger
	// Clock is for tests. Defaults to clock.Boot.
	Clock clock.Clock
}

const defaultAttemptTimeout = 5 * time.Second

// Driver keeps locks as Leases of one Kubernetes namespace. It is a driver.Driver, a driver.Waiter and a driver.Passer.
type Driver struct {
	leases    coordinationv1client.LeaseInterface
	transport http.RoundTripper
	traced    bool
	namespace string
	options   Options
	remedies  remedies
	clock     clock.Clock
	log       *slog.Logger
	epoch     atomic.Uint64
	owners    owners

	ctx     context.Context
	cancel  context.CancelFunc
	mu      sync.Mutex
	closed  bool
	spaces  map[string]*space // by prefix
	watches sync.WaitGroup
}

var (
	_ driver.Driver        = (*Driver)(nil)
	_ driver.Waiter        = (*Driver)(nil)
	_ driver.Passer        = (*Driver)(nil)
	_ driver.Lister        = (*Driver)(nil)
	_ driver.ForceReleaser = (*Driver)(nil)
)

// refuse says that an argument cannot work.
func refuse(option, problem string, err error) error {
	return &driver.OptionError{Package: "leaselock", Option: option, Problem: problem, Err: err}
}

// New makes a driver that keeps locks in a Kubernetes namespace. It copies the config, uses a transport of its own without a
// client-side rate limiter, and contacts nobody. The error is a *driver.OptionError.
func New(config *rest.Config, namespace string, options *Options) (*Driver, error) {
	if config == nil {
		return nil, refuse("config", "is nil: give one, for example rest.InClusterConfig", nil)
	}
	if namespace == "" {
		return nil, refuse("namespace", "is empty: give the Kubernetes namespace of the LockNamespace", nil)
	}
	var o Options
	if options != nil {
		o = *options
	}
	switch {
	case o.AttemptTimeout == 0:
		o.AttemptTimeout = defaultAttemptTimeout
	case o.AttemptTimeout < 0:
		return nil, refuse("Options.AttemptTimeout", fmt.Sprintf("is %s: give a positive duration, or 0 for the default", o.AttemptTimeout), nil)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.Boot()
	}
	leases, transport, traced, err := newLeases(config, namespace)
	if err != nil {
		return nil, refuse("config", "cannot be used", err)
	}
	d := &Driver{
		leases:    leases,
		transport: transport,
		traced:    traced,
		namespace: namespace,
		options:   o,
		remedies:  newRemedies(namespace, o.LockNamespace, o.RoleName),
		clock:     o.Clock,
		log:       o.Logger,
		spaces:    map[string]*space{},
	}
	d.epoch.Store(o.Epoch)
	d.owners.init()
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d, nil
}

// RaiseEpoch makes later tokens greater than those of every smaller epoch. A smaller epoch than the present one changes nothing.
func (d *Driver) RaiseEpoch(epoch uint64) {
	for {
		present := d.epoch.Load()
		if epoch <= present || d.epoch.CompareAndSwap(present, epoch) {
			return
		}
	}
}

// Limits is what a Lease can carry: whole seconds of an int32.
func (d *Driver) Limits() driver.Limits {
	return driver.Limits{MinTTL: leaseformat.MinDuration, MaxTTL: leaseformat.MaxDuration, Granularity: leaseformat.Granularity}
}

// Close ends the watches and closes the connections. It releases no lock.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	d.watches.Wait()
	utilnet.CloseIdleConnectionsFor(d.transport)
	return nil
}

// space is the part of the driver that belongs to one prefix; the first use starts its watch.
func (d *Driver) space(op, prefix string) (*space, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, &driver.StoreError{Outcome: driver.ErrUnavailable, Op: op, Reason: "closed", Err: errors.New("the driver is closed")}
	}
	s, ok := d.spaces[prefix]
	if !ok {
		s = newSpace(d, prefix)
		d.spaces[prefix] = s
		d.watches.Go(func() { s.run(d.ctx) })
	}
	return s, nil
}
