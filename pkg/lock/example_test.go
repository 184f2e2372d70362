// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

// newExampleClient stands for lockstead.Open, which reads the mounted binding.
func newExampleClient(store *memlock.Driver) *lock.Client {
	client, err := lock.New(store, "lk:{payments/billing}:", nil)
	if err != nil {
		panic(err)
	}
	return client
}

func Example() {
	ctx := context.Background()
	client := newExampleClient(memlock.New(nil))
	defer client.Close(ctx)

	h, err := client.TryAcquire(ctx, lock.Key("order", "4711"), 30*time.Second, 5*time.Second)
	if errors.Is(err, lock.ErrHeld) {
		fmt.Println("another replica is at it")
		return
	}
	if err != nil {
		fmt.Println("no lock:", err)
		return
	}
	defer h.Release(ctx)
	fmt.Println("charging", h.Key(), "valid:", h.Valid())
	// Output: charging order:4711 valid: true
}

func ExampleClient_TryAcquire() {
	ctx := context.Background()
	store := memlock.New(nil)
	one, two := newExampleClient(store), newExampleClient(store)

	h, err := one.TryAcquire(ctx, "order:4711", 30*time.Second, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = two.TryAcquire(ctx, "order:4711", 30*time.Second, 0)
	fmt.Println("held elsewhere:", errors.Is(err, lock.ErrHeld))
	if err := h.Release(ctx); err != nil {
		fmt.Println(err)
		return
	}
	next, err := two.TryAcquire(ctx, "order:4711", 30*time.Second, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the token grew:", h.Token().Less(next.Token()))
	// Output:
	// held elsewhere: true
	// the token grew: true
}

func ExampleClient_Do() {
	ctx := context.Background()
	client := newExampleClient(memlock.New(nil))

	err := client.Do(ctx, lock.Key("report", "2026-12"), func(ctx context.Context, h *lock.Handle) error {
		// The lock is renewed while this function runs. ctx ends when the lock is lost.
		fmt.Println("building", h.Key())
		return ctx.Err()
	}, &lock.DoOptions{TTL: time.Minute, Wait: 5 * time.Second, MaxHold: 10 * time.Minute})
	fmt.Println("error:", err)
	// Output:
	// building report:2026-12
	// error: <nil>
}

func ExampleToken() {
	// A resource keeps the greatest token that it has seen, and refuses smaller ones.
	newest := lock.Token{}
	write := func(token lock.Token, value string) {
		if token.Less(newest) {
			fmt.Println("refused:", value)
			return
		}
		newest = token
		fmt.Println("written:", value)
	}
	stale, current := lock.Token{Epoch: 1, Sequence: 41}, lock.Token{Epoch: 1, Sequence: 42}
	write(current, "from the new holder")
	write(stale, "from a holder that was paused")
	// Output:
	// written: from the new holder
	// refused: from a holder that was paused
}
