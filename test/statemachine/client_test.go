// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

// maxTTL is the longest that a lock is taken for, and left.
const maxTTL = 10 * time.Second

// TestClient runs processes that take, renew, pass on, leave, lose and force locks, while their store refuses and answers late or not at all.
func TestClient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, run) })
}

func run(t *rapid.T) {
	m := newMachine(t)
	t.Cleanup(m.abandon) // A fault ends the sequence where it is.
	t.Repeat(map[string]func(*rapid.T){
		"try": m.try, "wait": m.wait, "renew": m.renew, "release": m.release, "leave": m.leave, "force": m.force, "advance": m.advance, "expire": m.expire,
		"disturb": m.disturb, "delay": m.delay, "heal": m.heal, "": m.check,
	})
	m.finish(t)
}

// process is one client and its own way to the store.
type process struct {
	client *lock.Client
	slow   *slow
	fault  locktest.Fault
}

// holding is a handle and what was seen of it.
type holding struct {
	*lock.Handle
	process  int
	over     bool // it was seen invalid
	released bool
	forced   bool // the lock was taken away by force: another may hold it before this one knows
}

type machine struct {
	store     *memlock.Driver
	processes []process
	stop      context.CancelFunc
	ctx       context.Context
	waiting   sync.WaitGroup

	mu       sync.Mutex
	holdings []*holding
	faults   []string
	tokens   map[string]lock.Token
}

const prefix = "lk:{test/one}:"

var keys = []string{"a", "b"}

func newMachine(t *rapid.T) *machine {
	m := &machine{store: memlock.New(&memlock.Options{Clock: clock.Monotonic()}), tokens: map[string]lock.Token{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	for range 2 {
		delayed := &slow{Driver: m.store}
		way, fault := locktest.Interpose(delayed)
		client, err := lock.New(way, prefix, &lock.Options{MaxTTL: maxTTL, DefaultTTL: time.Second, Clock: clock.Monotonic()})
		if err != nil {
			t.Fatal(err)
		}
		m.processes = append(m.processes, process{client, delayed, fault})
	}
	return m
}

func drawTTL(t *rapid.T) time.Duration {
	return time.Duration(rapid.IntRange(100, int(maxTTL/time.Millisecond)).Draw(t, "ttl in ms")) * time.Millisecond
}

// took notes a handle that a process has got.
func (m *machine) took(process int, h *lock.Handle) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.tokens[h.Key()]; !before.Less(h.Token()) {
		m.faults = append(m.faults, fmt.Sprintf("token %s of %q was granted after %s", h.Token(), h.Key(), before))
	}
	m.tokens[h.Key()] = h.Token()
	m.holdings = append(m.holdings, &holding{Handle: h, process: process})
}

// ask takes a lock, or checks that the refusal is one of those that there are.
func (m *machine) ask(process int, key string, ttl, wait time.Duration) {
	h, err := m.processes[process].client.TryAcquire(m.ctx, key, ttl, wait)
	switch {
	case err == nil:
		m.took(process, h)
	case errors.Is(err, lock.ErrHeld), errors.Is(err, lock.ErrUnavailable), errors.Is(err, lock.ErrUnknown), m.ctx.Err() != nil:
	default:
		m.mu.Lock()
		defer m.mu.Unlock()
		m.faults = append(m.faults, fmt.Sprintf("acquire of %q: %v", key, err))
	}
}

func (m *machine) draw(t *rapid.T) (process int, key string) {
	return rapid.IntRange(0, len(m.processes)-1).Draw(t, "process"), rapid.SampledFrom(keys).Draw(t, "key")
}

func (m *machine) try(t *rapid.T) {
	process, key := m.draw(t)
	m.ask(process, key, drawTTL(t), 0)
}

// wait has a goroutine wait for a lock, so that locks are passed on.
func (m *machine) wait(t *rapid.T) {
	process, key := m.draw(t)
	ttl, wait := drawTTL(t), time.Duration(rapid.IntRange(1, 30).Draw(t, "wait in s"))*time.Second
	m.waiting.Go(func() { m.ask(process, key, ttl, wait) })
}

// pick draws one of the handles that were not released.
func (m *machine) pick(t *rapid.T) *holding {
	m.mu.Lock()
	open := slices.DeleteFunc(slices.Clone(m.holdings), func(h *holding) bool { return h.released })
	m.mu.Unlock()
	if len(open) == 0 {
		t.Skip("nothing is held")
	}
	return rapid.SampledFrom(open).Draw(t, "handle")
}

func (m *machine) renew(t *rapid.T) {
	h := m.pick(t)
	valid := h.Valid()
	if err := h.Renew(m.ctx, drawTTL(t)); err == nil && !valid {
		t.Fatalf("a handle of %q that was over was renewed", h.Key())
	}
}

func (m *machine) release(t *rapid.T) {
	h := m.pick(t)
	h.released = true
	err := h.Release(m.ctx)
	if _, lost := errors.AsType[*lock.LostError](err); h.over && !lost {
		t.Fatalf("the release of a handle of %q that had been lost said %v", h.Key(), err)
	}
	if h.Valid() {
		t.Fatalf("a handle of %q is valid after its release", h.Key())
	}
}

func (m *machine) leave(t *rapid.T) {
	h := m.pick(t)
	h.released = true
	_ = h.Leave(m.ctx, drawTTL(t))
	if h.Valid() {
		t.Fatalf("a handle of %q is valid after it was left", h.Key())
	}
}

func (m *machine) force(t *rapid.T) {
	process, key := m.draw(t)
	m.mu.Lock()
	for _, h := range m.holdings {
		h.forced = h.forced || h.Key() == key
	}
	m.mu.Unlock()
	forced, err := m.processes[process].client.ForceRelease(m.ctx, key, "")
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if forced.Fence.Less(forced.Holding.Token) {
		t.Fatalf("the fence %s is less than the holder's token %s", forced.Fence, forced.Holding.Token)
	}
}

func (m *machine) advance(t *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 4000).Draw(t, "time in ms")) * time.Millisecond) //nolint:forbidigo // Virtual.
}

// expire lets the time of a record run out, and has somebody ask for the lock at that moment.
func (m *machine) expire(t *rapid.T) {
	process, key := m.draw(t)
	holding, err := m.store.Inspect(m.ctx, driver.Key{Prefix: prefix, Name: key})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(holding.Remaining) //nolint:forbidigo // Virtual.
	m.ask(process, key, drawTTL(t), 0)
}

func (m *machine) disturb(t *rapid.T) {
	fault := m.processes[rapid.IntRange(0, len(m.processes)-1).Draw(t, "process")].fault
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		fault.Refuse()
	case 1:
		fault.DropResponses()
	case 2:
		fault.HoldResponses()
	}
}

// delay has answers arrive late, also after the time that they are about.
func (m *machine) delay(t *rapid.T) {
	slow := m.processes[rapid.IntRange(0, len(m.processes)-1).Draw(t, "process")].slow
	slow.by.Store(int64(time.Duration(rapid.IntRange(1, 4000).Draw(t, "delay in ms")) * time.Millisecond))
}

func (m *machine) heal(t *rapid.T) {
	p := m.processes[rapid.IntRange(0, len(m.processes)-1).Draw(t, "process")]
	p.fault.Heal()
	p.slow.by.Store(0)
}

// check is what has to be true after each step.
func (m *machine) check(t *rapid.T) {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, fault := range m.faults {
		t.Error(fault)
	}
	valid := map[string]*holding{}
	for _, h := range m.holdings {
		switch {
		case !h.Valid():
			h.over = true
		case h.over || h.released:
			t.Errorf("a handle of %q has become valid again", h.Key())
		case h.forced:
		case valid[h.Key()] != nil:
			t.Errorf("two handles of %q are valid, with tokens %s and %s", h.Key(), valid[h.Key()].Token(), h.Token())
		default:
			valid[h.Key()] = h
		}
		cause := context.Cause(h.Context())
		_, lost := errors.AsType[*lock.LostError](cause)
		switch {
		case h.Valid() && cause != nil:
			t.Errorf("a valid handle of %q has a context that ended with %v", h.Key(), cause)
		case !h.Valid() && !lost && !errors.Is(cause, lock.ErrReleased):
			t.Errorf("the context of a handle of %q that is over ended with %v", h.Key(), cause)
		}
	}
}

// abandon ends what goroutines and the library's timers still do.
func (m *machine) abandon() {
	m.stop()
	for _, p := range m.processes {
		p.fault.Heal()
	}
	m.waiting.Wait()
	for _, h := range m.holdings {
		_ = h.Release(context.Background())
	}
	for _, p := range m.processes {
		_ = p.client.Close(context.Background())
	}
}

// finish heals everything, gives everything back, and wants everything to be free once nothing can be held any more.
func (m *machine) finish(t *rapid.T) {
	for _, p := range m.processes {
		p.fault.Heal()
		p.slow.by.Store(0)
	}
	m.stop()
	m.waiting.Wait()
	m.ctx, m.stop = context.WithCancel(context.Background())
	defer m.stop()
	for _, h := range m.holdings {
		if !h.released {
			h.released = true
			_ = h.Release(m.ctx)
		}
	}
	m.check(t)
	time.Sleep(2 * maxTTL) //nolint:forbidigo // Virtual.
	for i, p := range m.processes {
		for _, key := range keys {
			h, err := p.client.TryAcquire(m.ctx, key, time.Second, 0)
			if err != nil {
				t.Fatalf("%q is not free in the end: %v", key, err)
			}
			m.took(i, h)
			if err := h.Release(m.ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, p := range m.processes {
		if err := p.client.Close(m.ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, fault := range m.faults {
		t.Error(fault)
	}
}
