// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
)

// BenchmarkAcquireRelease is a lock that nobody else wants: two round trips to a server on loopback that writes each to its disk.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, access := range []binding.Access{binding.AccessFunctions, binding.AccessScripts} {
		b.Run(string(access), func(b *testing.B) {
			server := startServer(b, access)
			client, err := lock.New(openTenant(b, server.Addr(), access, nil), prefix, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = client.Close(context.Background()) })
			b.ReportAllocs()
			for b.Loop() {
				h, err := client.TryAcquire(b.Context(), "bench", time.Minute, 0)
				if err != nil {
					b.Fatal(err)
				}
				if err := h.Release(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
