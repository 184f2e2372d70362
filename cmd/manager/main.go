// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manager is the Lockstead operator.
//
//	--default-instance=ns/name       RedisInstance for LockNamespaces without an instanceRef (none: they get Leases)
//	--operator-namespace=ns          with --operator-labels: its own pods, which the network policies of managed servers admit (none)
//	--operator-labels=key=value,…
//	--leader-elect                   let one of several operators act
//	--leader-election-namespace=ns   namespace of the election's Lease (the operator's own)
//	--metrics-bind-address=:8443     metrics over HTTPS, to those whom RBAC lets read /metrics; 0 is nowhere
//	--metrics-cert-dir=folder        tls.crt and tls.key for them (a certificate that signs itself)
//	--health-probe-bind-address=:8081
//	--log-level=info                 debug, info or error
//	--version
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/options"
)

// version is set by the linker.
var version = "unknown"

// leaderElectionID is the name of the election's Lease.
const leaderElectionID = "lockstead-manager"

func main() {
	o, err := options.Parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case o.ShowVersion:
		fmt.Fprintln(os.Stdout, version)
		return
	}
	logger := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: o.LogLevel}))
	ctrl.SetLogger(logger)
	if err := run(ctrl.SetupSignalHandler(), o, logger); err != nil {
		logger.Error(err, "The operator ended")
		os.Exit(1)
	}
}

// gracefulStop is how long running reconciliations may take to end. It leaves time within the chart's grace period to release the election.
const gracefulStop = 10 * time.Second

// run runs the operator until the context ends, and then lets running reconciliations finish.
func run(ctx context.Context, o options.Options, logger logr.Logger) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	mgr, err := newManager(config, o, logger)
	if err != nil {
		return err
	}
	if err := controllers.Setup(mgr, controllers.Options{
		DefaultInstance: o.DefaultInstance, Metrics: metrics.Registry, Operator: redisinstance.Pods{Namespace: o.OperatorNamespace, Labels: o.OperatorLabels},
	}); err != nil {
		return err //nolint:wrapcheck // It says what was done.
	}
	// The Redis client would write to standard error on its own; what it says is in the errors that it returns.
	redis.SetLogger(silent{})
	logger.Info("Starting", "version", version, "defaultInstance", o.DefaultInstance)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the controllers: %w", err)
	}
	return nil
}

func newManager(config *rest.Config, o options.Options, logger logr.Logger) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		Logger: logger,
		Cache:  controllers.CacheOptions(),
		Client: controllers.ClientOptions(),
		Metrics: metricsserver.Options{
			BindAddress: o.MetricsAddress, SecureServing: true, CertDir: o.MetricsCertDir,
			FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
		HealthProbeBindAddress: o.ProbeAddress,
		LeaderElection:         o.LeaderElect,
		LeaderElectionID:       leaderElectionID,
		// Released on a graceful stop, after the controllers have ended: nothing runs after Start returns.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       new(gracefulStop),
		LeaderElectionNamespace:       o.LeaderElectionNamespace,
		// A queue of requests that is full must not delay the renewal.
		LeaderElectionConfig: rest.CopyConfig(config),
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("cache", cacheSynced(mgr))); err != nil {
		return nil, fmt.Errorf("add the probes: %w", err)
	}
	return mgr, nil
}

// cacheSynced is ready when the operator has seen the cluster.
func cacheSynced(mgr ctrl.Manager) healthz.Checker {
	return func(request *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(request.Context()) {
			return errors.New("the cache is not filled yet")
		}
		return nil
	}
}

// silent drops what the Redis client logs.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
