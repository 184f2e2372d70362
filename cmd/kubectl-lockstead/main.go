// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-lockstead is the kubectl plugin: kubectl lockstead status, locks and more. Package kubectl has the verbs.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways to log in that a kubeconfig can name
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstead/lockstead/internal/kubectl"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// What the clients log is in the errors that they return.
	log.SetLogger(logr.Discard())
	redis.SetLogger(silent{})
	return kubectl.Run(ctx, kubectl.Terminal{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Clock: clock.RealClock{}, Version: version}, os.Args[1:])
}

// silent drops what the Redis client logs.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
