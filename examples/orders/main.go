// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Command orders is a shop of several replicas whose orders are placed once, however often a client sends them, and whichever replica dies on the way.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockstead/lockstead/examples/orders/shop"
	"github.com/lockstead/lockstead/pkg/adapters/lockprom"
	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil)).With("pod", os.Getenv("POD_NAME"))
	if err := run(ctx, os.Getenv, log); err != nil {
		log.Error("the service ended", "error", err)
		os.Exit(1) //nolint:gocritic // Nothing is left to stop.
	}
}

// Bounds of the end: requests under way have longer than the wait and the handler of a healthy one take.
const (
	shutdownTimeout = 20 * time.Second
	headerTimeout   = 10 * time.Second
	readyTimeout    = 2 * time.Second
)

// run serves until ctx ends, then ends in good order.
func run(ctx context.Context, getenv func(string) string, log *slog.Logger) (err error) {
	config, err := parseConfig(getenv)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	locking, metrics := lockprom.New(nil), shop.NewMetrics()
	registry.MustRegister(locking, metrics)

	b, err := open(ctx, config, locking, log)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err = errors.Join(err, b.close(closing))
	}()
	guard, err := idempotency.New(b.records, b.locks.Client, &idempotency.Options{Caller: shop.Customer, Observer: metrics.Observer(), Logger: log})
	if err != nil {
		return err
	}
	api := shop.New(shop.Options{Orders: shop.NewOrders(b.pool), Guard: guard, Lease: config.lease, Tokens: config.tokens, Metrics: metrics, Logger: log})

	admin := http.NewServeMux()
	admin.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	admin.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	admin.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ping, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if ctx.Err() != nil || b.pool.Ping(ping) != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	go b.sweep(ctx, log)
	return serve(ctx, config, api, admin, log)
}

// serve serves both until ctx ends. The API goes first, so that the probes and the metrics tell of its end.
func serve(ctx context.Context, config config, api, admin http.Handler, log *slog.Logger) error {
	failed := make(chan error, 2)
	start := func(addr string, h http.Handler) (*http.Server, string, error) {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if err != nil {
			return nil, "", fmt.Errorf("listen: %w", err)
		}
		server := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
		return server, listener.Addr().String(), nil
	}
	adminServer, adminAddr, err := start(config.adminAddr, admin)
	if err != nil {
		return err
	}
	defer func() { _ = adminServer.Close() }()
	apiServer, addr, err := start(config.addr, api)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "serving", "addr", addr, "adminAddr", adminAddr)
	select {
	case err := <-failed:
		_ = apiServer.Close()
		return err
	case <-ctx.Done():
	}
	// Not ready any more. Until all who send requests know it, they are answered.
	log.InfoContext(ctx, "draining")
	<-clock.Boot().NewTimer(config.drain).C()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	return apiServer.Shutdown(closing)
}
