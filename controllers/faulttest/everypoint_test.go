// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package faulttest_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// story is something that happens in the life of a lock namespace.
type story struct {
	name string
	// uninterrupted: applications go on meanwhile.
	uninterrupted bool
	// before is what there was before it.
	before func(*world)
	// happens are its steps; the operator is at rest in between.
	happens []func(*world)
	// answers are lost in it too, one by one.
	answers bool
	// changes are how many changes the operator makes at least; fewer, and the story does not test what it should.
	changes int
}

// TestEveryPoint tells every story with every disturbance of every request.
func TestEveryPoint(t *testing.T) {
	at := time.Now().Truncate(time.Second)
	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, nil)
			var want ending
			t.Run("undisturbed", func(t *testing.T) { want, _ = s.tell(t, server, at, "", 0) })
			for _, m := range s.modes() {
				n := 0
				for happened := true; happened && !t.Failed(); {
					happened = false // Also when -run leaves this one out.
					t.Run(fmt.Sprintf("%s/%d", m, n), func(t *testing.T) {
						var struck string
						var got ending
						got, struck = s.tell(t, server, at, m, n)
						if lines := differences(want.state, got.state); len(lines) > 0 {
							t.Errorf("after %s of %q:\n%s", m, struck, strings.Join(lines, "\n"))
						}
						for name, epoch := range want.epochs {
							if got.epochs[name] < epoch {
								t.Errorf("after %s of %q: the epoch of %s is %d, want at least %d", m, struck, name, got.epochs[name], epoch)
							}
						}
						happened = struck != ""
					})
					n++
				}
				if n--; n > 0 && n < s.changes {
					t.Errorf("%s: only %d requests were disturbed, want at least %d", m, n, s.changes)
				}
				t.Logf("%s: %d requests", m, n)
			}
		})
	}
}

// everyRequest is a variable of the environment. Unless it is empty, answers are lost in every story, and requests that change nothing fail too, one
// by one: that takes twenty times as long.
const everyRequest = "LOCKSTEAD_FAULT_EVERY_REQUEST"

func (s story) modes() []mode {
	switch {
	case os.Getenv(everyRequest) != "":
		return []mode{kill, lose, fail}
	case s.answers:
		return []mode{kill, lose}
	}
	return []mode{kill}
}

// ending is what there is in the end.
type ending struct {
	state state
	// epochs are those of the RedisInstances, by name.
	epochs map[string]int64
}

// tell returns what there is in the end, and which request was disturbed; empty is none.
func (s story) tell(t *testing.T, server *redistest.Server, at time.Time, m mode, n int) (end ending, struck string) {
	t.Helper()
	w := newWorld(t, server, at)
	if s.before != nil {
		s.before(w)
		w.settle()
	}
	w.uninterrupted = s.uninterrupted
	disturbed := w.operator.faults
	if m != "" {
		disturbed.arm(m, n)
	}
	return s.goOn(w, disturbed, m, n)
}

// goOn tells a story from where its disturbance begins.
func (s story) goOn(w *world, disturbed *faults, m mode, n int) (end ending, struck string) {
	t := w.t
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%s of request %d: %q", m, n, disturbed.what())
		}
	}()
	for _, step := range s.happens {
		step(w)
		w.settle()
	}
	w.restart()
	if failed := w.look(); len(failed) > 0 || w.operator.faults.changed() > 0 {
		t.Errorf("a new operator still has to write something, or fails: %v", failed)
	}
	w.observe()
	w.wantSecrecy()
	end = ending{w.state(), map[string]int64{}}
	for _, instance := range w.instances {
		end.epochs[instance.Name] = instance.Status.Epoch
	}
	return end, disturbed.what()
}
