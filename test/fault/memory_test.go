// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
	"github.com/lockstead/lockstead/test/fault/client"
	"github.com/lockstead/lockstead/test/fault/history"
)

// The same clients without processes and servers, on locks in memory: what the checkers say of it is about the client library and themselves.
func TestMemory(t *testing.T) {
	t.Parallel()
	b := &backend{name: "memory", prefix: prefix, ttl: 200 * time.Millisecond, lapse: 50 * time.Millisecond, wake: 3 * time.Second, store: func(string) client.Store { return client.Store{} }}
	f := &fault{name: "F0", title: "clients that oversleep"}
	r := newRig(t, b, shape{clients: 4, workers: 4, keys: 6, length: 2 * time.Second}, *seedFlag, "", false)
	store := memlock.New(nil)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	var work sync.WaitGroup
	for _, s := range r.slots {
		s.config.History = filepath.Join(r.dir, s.config.Name+".jsonl")
		file, err := os.Create(s.config.History)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		work.Go(func() {
			if err := client.RunOn(ctx, s.config, store, history.NewWriter(file), clock.Boot()); err != nil {
				t.Error(err)
			}
		})
	}
	r.pause(r.shape.length)
	cancel()
	work.Wait()
	var processes []history.Process
	for _, s := range r.slots {
		records, err := history.ReadFile(s.config.History)
		if err != nil {
			t.Fatal(err)
		}
		s.files = append(s.files, s.config.History)
		processes = append(processes, history.Process{Name: s.config.Name, Records: records, Ended: history.Now()})
	}
	r.verdict(f, judge(r, f, history.Assemble(processes, nil, 0), r.guarded.Close(), 0))
}
