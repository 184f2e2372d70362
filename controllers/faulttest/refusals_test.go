// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package faulttest_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// refusals are the answers of an API server that others write to as well, or that has too much to do.
func refusals(seed uint64, count *int) func(string) error {
	random := rand.New(rand.NewPCG(seed, 1))
	resource := schema.GroupResource{Resource: "somethings"}
	return func(write string) error {
		if random.IntN(3) > 0 {
			return nil
		}
		*count++
		switch random.IntN(3) {
		case 0:
			if !strings.HasPrefix(write, "create") {
				return apierrors.NewConflict(resource, "name", errDisturbed)
			}
			return apierrors.NewServerTimeout(resource, "create", 1)
		case 1:
			return apierrors.NewTooManyRequests("too much to do", 1)
		}
		return apierrors.NewTimeoutError("it took too long", 1)
	}
}

// TestRefusals has the API server refuse a third of all writes, by conflicts, by throttling and by time-outs. The end is the same.
func TestRefusals(t *testing.T) {
	at := time.Now().Truncate(time.Second)
	told := []string{"first, external", "first, managed", "first, lease", "rotation, managed", "data lost, external", "shared, external"}
	for _, s := range stories() {
		if !slices.Contains(told, s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, nil)
			var want, got ending
			t.Run("undisturbed", func(t *testing.T) { want, _ = s.tell(t, server, at, "", 0) })
			refused := 0
			for seed := range uint64(3) {
				t.Run("refused", func(t *testing.T) {
					w := newWorld(t, server, at)
					if s.before != nil {
						s.before(w)
						w.settle()
					}
					w.uninterrupted = s.uninterrupted
					w.operator.faults.refuse = refusals(seed, &refused)
					got, _ = s.goOn(w, w.operator.faults, "", 0)
					if lines := differences(want.state, got.state); len(lines) > 0 {
						t.Errorf("with seed %d:\n%s", seed, strings.Join(lines, "\n"))
					}
				})
			}
			if refused == 0 {
				t.Error("nothing was refused")
			}
			t.Logf("%d writes were refused", refused)
		})
	}
}
