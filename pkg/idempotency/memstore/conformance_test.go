// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/idempotencytest"
	"github.com/lockstead/lockstead/pkg/idempotency/memstore"
)

func TestConformance(t *testing.T) {
	store, err := memstore.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	idempotencytest.Run(t, idempotencytest.Harness{NewStore: func(*testing.T) idempotency.Store { return store }})
}

func TestConformanceWithALimit(t *testing.T) {
	const limit = 1000
	idempotencytest.Run(t, idempotencytest.Harness{
		MaxResponse: limit,
		NewStore: func() func(t *testing.T) idempotency.Store {
			stores := map[string]idempotency.Store{}
			return func(t *testing.T) idempotency.Store {
				if stores[t.Name()] == nil {
					store, err := memstore.New(&memstore.Options{MaxBytes: limit})
					if err != nil {
						t.Fatal(err)
					}
					stores[t.Name()] = store
				}
				return stores[t.Name()]
			}
		}(),
	})
}

func TestSaysOnceWhatItIsNot(t *testing.T) {
	var log strings.Builder
	if _, err := memstore.New(&memstore.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(log.String(), "other replicas do not see them"); got != 1 {
		t.Errorf("the log says it %d times, want once:\n%s", got, log.String())
	}
}
