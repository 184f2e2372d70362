// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Command worker is an application that locks: its replicas compete for a few keys, and each section that a replica does while it
// holds a key is logged as a line at its start and one at its end, with the fencing token. It uses nothing but the public library; the
// backend is whatever the mounted binding names.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lockstead"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// closeTimeout bounds what is left to do once all sections have ended.
const closeTimeout = 5 * time.Second

func run(ctx context.Context, args []string) (err error) {
	config, err := parseConfig(args, os.Getenv)
	if err != nil {
		return err
	}
	if config.gracefulStop {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
		defer stop()
	}
	// Only for the log: Open reads the binding itself.
	bound, err := binding.Load(config.bindingDir)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: config.logLevel})).
		With("pod", config.pod, "backend", bound.Type)

	client, err := lockstead.Open(ctx, &lockstead.Options{BindingDir: config.bindingDir, Logger: log})
	if err != nil {
		return err
	}
	newWorker(client.Client, config, log).run(ctx)

	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return client.Close(closeCtx)
}
