// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
)

// Most programs call lockstead.Open, which reads namespace, prefix and epoch from the binding.
func Example() {
	ctx := context.Background()
	config := server.Config() // in a pod: rest.InClusterConfig()
	driver, err := leaselock.New(config, "default", &leaselock.Options{Epoch: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = driver.Close() }()
	client, err := lock.New(driver, "lk:{default/example}:", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	h, err := client.Acquire(ctx, lock.Key("order", "17"), 30*time.Second, 5*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Release(ctx)
	fmt.Println("held for", h.TTL(), "in epoch", h.Token().Epoch)
	// Output: held for 30s in epoch 1
}
