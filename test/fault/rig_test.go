// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
	"github.com/lockstead/lockstead/test/fault/check"
	"github.com/lockstead/lockstead/test/fault/client"
	"github.com/lockstead/lockstead/test/fault/history"
	"github.com/lockstead/lockstead/test/fault/resource"
)

// patience is far longer than a healthy step takes.
const patience = 60 * time.Second

// shape is the size of a run.
type shape struct {
	clients, workers, keys int
	// length is that of the run without its start and its quiet end; a third of it is healthy.
	length time.Duration
}

// rig is one run: clients that work on a store, and a fault.
type rig struct {
	t       *testing.T
	ctx     context.Context
	dir     string
	random  *rand.Rand
	backend *backend
	shape   shape
	seed    uint64
	bug     string

	guarded *resource.Server
	slots   []*slot

	mu     sync.Mutex
	faults []history.Fault
}

// newRig makes what every run needs; the clients are not started.
func newRig(t *testing.T, b *backend, s shape, seed uint64, bug string, healthy bool) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.length+3*patience)
	t.Cleanup(cancel)
	// Not t.TempDir: the name of a socket is at most 108 bytes long.
	dir, err := os.MkdirTemp("", "fault") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{t: t, ctx: ctx, dir: dir, random: rand.New(rand.NewPCG(seed, 0)), backend: b, shape: s, seed: seed, bug: bug}
	socket := dir + "/resource"
	if r.guarded, err = resource.Listen(socket); err != nil {
		t.Fatal(err)
	}
	keys := make([]string, s.keys)
	for i := range keys {
		keys[i] = fmt.Sprintf("order:%d-%d", seed, i)
	}
	for i := range s.clients {
		var path *faultproxy.Proxy
		address := ""
		if b.address != "" {
			path = faultproxy.New(t, b.address)
			address = path.Addr()
		}
		r.slots = append(r.slots, &slot{path: path, stderr: &strings.Builder{}, config: client.Config{
			Name: fmt.Sprintf("c%d", i+1), Store: b.store(address), Prefix: b.prefix, Keys: keys, TTL: b.ttl, Work: b.ttl / 5, Workers: s.workers,
			Resource: socket, Seed: seed ^ uint64(i+1)<<48, Rate: 1, Bug: bug, Healthy: healthy,
		}})
	}
	t.Cleanup(func() {
		for _, s := range r.slots {
			if s.running != nil {
				s.running.kill()
			}
		}
	})
	return r
}

func (r *rig) startClients() {
	r.t.Helper()
	for _, s := range r.slots {
		if err := s.start(r.dir); err != nil {
			r.t.Fatal(err)
		}
	}
}

// pause reports false when the run is over.
func (r *rig) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// anyone is a client at random.
func (r *rig) anyone() *slot { return r.slots[r.random.IntN(len(r.slots))] }

// between is a time between two at random.
func (r *rig) between(least, most time.Duration) time.Duration {
	return least + time.Duration(r.random.Int64N(int64(most-least)+1))
}

// during writes down that a fault is on while f runs.
func (r *rig) during(name, target string, f func()) {
	from := history.Now()
	f()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, history.Fault{Name: name, Target: target, From: from, Until: history.Now()})
}

// run lets the clients work: a third of the time in health, then with the fault again and again, and a quiet end in which everything may settle.
func (r *rig) run(f *fault) *result {
	r.t.Helper()
	r.startClients()
	r.pause(r.shape.length / 3)
	until := history.Now() + int64(r.shape.length*2/3)
	for history.Now() < until && r.ctx.Err() == nil && !r.t.Failed() {
		f.inject(r)
	}
	r.pause(2 * r.backend.ttl)
	return r.finish(f)
}

// finish ends the clients and judges what they wrote.
func (r *rig) finish(f *fault) *result {
	r.t.Helper()
	ending, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	var work sync.WaitGroup
	for _, s := range r.slots {
		work.Go(func() { s.stop(ending.Done()) })
	}
	work.Wait()
	var processes []history.Process
	var crashes []error
	leaked := 0
	for _, s := range r.slots {
		for _, p := range s.past {
			processes = append(processes, p)
			for _, record := range p.Records {
				leaked += record.Leaked
			}
		}
		if len(s.crashes) > 0 {
			crashes = append(crashes, fmt.Errorf("%w\n%s", errors.Join(s.crashes...), s.stderr))
		}
	}
	if err := errors.Join(crashes...); err != nil {
		r.t.Errorf("clients: %v", err)
	}
	const drain = 300 * time.Millisecond
	histories := history.Assemble(processes, r.faults, drain)
	return judge(r, f, histories, r.guarded.Close(), leaked)
}

// terms are what the store of this run promises.
func (r *rig) terms() check.Terms {
	return check.Terms{Lapse: r.backend.lapse, Budget: 30 * time.Second}
}
