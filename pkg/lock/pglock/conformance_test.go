// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock_test

import (
	"testing"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
	"github.com/lockstead/lockstead/pkg/lock/pglock/pgtest"
)

func TestConformance(t *testing.T) {
	url := install(t, server)
	admin := connect(t, url)
	locktest.Run(t, locktest.Harness{
		NewDriver: func(t *testing.T) driver.Driver {
			d := open(t, url, nil)
			t.Cleanup(func() { _ = d.Close() })
			return d
		},
		NewFaulty: func(t *testing.T) (driver.Driver, locktest.Fault) {
			proxy := faultproxy.New(t, server.Addr())
			d := open(t, pgtest.At(t, url, proxy.Addr()), nil)
			t.Cleanup(func() { _ = d.Close() })
			return d, proxy
		},
		NewPrefix: func(*testing.T) string { return newPrefix() },
		Remove: func(t *testing.T, key driver.Key) {
			if _, err := admin.Exec(t.Context(), "DELETE FROM lockstead.locks WHERE prefix = $1 AND name = $2", []byte(key.Prefix), []byte(key.Name)); err != nil {
				t.Fatal(err)
			}
		},
	})
}
