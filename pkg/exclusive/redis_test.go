// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package exclusive_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/exclusive"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

const patience = 30 * time.Second

// Real replicas on a real server: all ask at the same instant, and then again when the job is over.
func TestReplicasOnRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		server := redistest.Start(t, &redistest.Options{Binary: p.Path})
		var replicas []*exclusive.Runner
		var client *lock.Client
		for range 4 {
			connection := redis.NewClient(server.ClientOptions("admin", server.AdminPassword()))
			t.Cleanup(func() { _ = connection.Close() })
			d, err := redislock.New(connection, &redislock.Options{Access: binding.AccessScripts})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			client, err = lock.New(d, testPrefix, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close(context.Background()) })
			runner, err := exclusive.New(client, nil)
			if err != nil {
				t.Fatal(err)
			}
			replicas = append(replicas, runner)
		}
		slot := time.Now().Truncate(time.Second)
		for name, o := range map[string]*exclusive.JobOptions{
			"slots": {Slot: slot}, "holds": {MinHold: 10 * time.Minute}, "both": {Slot: slot, MinHold: 10 * time.Minute},
		} {
			var runs atomic.Int32
			outcomes := make(chan exclusive.Outcome)
			for range 2 {
				for _, r := range replicas {
					go func() {
						outcome, err := r.RunExclusive(ctx, name, func(context.Context, *lock.Handle) error { runs.Add(1); return nil }, o)
						if err != nil {
							t.Errorf("%s: %v", name, err)
						}
						outcomes <- outcome
					}()
				}
				for range replicas {
					if outcome := <-outcomes; outcome != exclusive.Ran && !outcome.Skipped() {
						t.Errorf("%s: outcome %q", name, outcome)
					}
				}
			}
			if n := runs.Load(); n != 1 {
				t.Errorf("%s: the job ran %d times, want once", name, n)
			}
			holding, err := client.Inspect(ctx, lock.Key("job", name))
			if err != nil {
				t.Fatal(err)
			}
			if left := holding.Remaining; (o.MinHold > 0) != holding.Held || left > o.MinHold || (holding.Held && left < o.MinHold-patience) {
				t.Errorf("%s: the job's key is held: %t, for %s", name, holding.Held, left)
			}
		}
	})
}
