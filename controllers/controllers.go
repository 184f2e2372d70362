// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers lists the controllers of the operator. Each has a folder, whose name is that of the controller in logs and metrics.
package controllers

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/lockstead/lockstead/controllers/leasereaper"
	"github.com/lockstead/lockstead/controllers/locknamespace"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	lockclock "github.com/lockstead/lockstead/pkg/lock/clock"
)

// Options are what the controllers need beside a manager.
type Options struct {
	// DefaultInstance is for LockNamespaces without an instanceRef. Defaults to none: those get Leases.
	DefaultInstance types.NamespacedName
	// Connector opens connections to Redis servers. Defaults to one that dials.
	Connector *redisadmin.Connector
	// Clock gives conditions their times. Defaults to the real one.
	Clock clock.PassiveClock
	// LockClock decides when a Lease is abandoned, and when a quarantine is over. Defaults to the boot clock.
	LockClock lockclock.Clock
	// Metrics takes the operator's own metrics. Defaults to none.
	Metrics prometheus.Registerer
	// Operator are the operator's own pods, which the network policies of managed servers admit. Defaults to none.
	Operator redisinstance.Pods
}

// Setup adds all controllers to a manager, whose cache and client are those of ManagerOptions.
func Setup(mgr manager.Manager, o Options) error {
	if o.Connector == nil {
		o.Connector = redisadmin.NewConnector(nil)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.LockClock == nil {
		o.LockClock = lockclock.Boot()
	}
	client, reader := mgr.GetClient(), mgr.GetAPIReader()
	for _, controller := range []interface {
		Register(mgr manager.Manager) error
	}{
		redisinstance.New(redisinstance.Config{
			Client: client, Reader: reader, Connector: o.Connector,
			Recorder: mgr.GetEventRecorder(redisinstance.Name), Clock: o.Clock, LockClock: o.LockClock, Operator: o.Operator, Metrics: o.Metrics,
		}),
		locknamespace.New(locknamespace.Config{
			Client: client, Reader: reader, Tenants: redisinstance.NewTenants(client, reader, o.Connector),
			Recorder: mgr.GetEventRecorder(locknamespace.Name), Clock: o.Clock, DefaultInstance: o.DefaultInstance,
		}),
		leasereaper.New(client, o.LockClock),
	} {
		if err := controller.Register(mgr); err != nil {
			return fmt.Errorf("set up the controllers: %w", err)
		}
	}
	return nil
}
