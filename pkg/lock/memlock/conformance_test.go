// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package memlock_test

import (
	"fmt"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

func TestConformance(t *testing.T) {
	store := memlock.New(nil)
	prefixes := 0
	locktest.Run(t, locktest.Harness{
		NewDriver: func(*testing.T) driver.Driver { return store },
		NewFaulty: func(*testing.T) (driver.Driver, locktest.Fault) { return locktest.Interpose(store) },
		NewPrefix: func(*testing.T) string {
			prefixes++
			return fmt.Sprintf("lk:{locktest/%d}:", prefixes)
		},
		Remove: func(t *testing.T, key driver.Key) {
			holding, err := store.Inspect(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Release(t.Context(), driver.ReleaseRequest{Key: key, ID: holding.ID}); err != nil {
				t.Fatal(err)
			}
		},
	})
}
