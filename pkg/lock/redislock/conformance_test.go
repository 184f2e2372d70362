// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"testing"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lock/locktest/faultproxy"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// The drivers are those of a tenant with the rights that the operator gives, and no others.
func TestConformance(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server := startServer(t, access)
		locktest.Run(t, locktest.Harness{
			NewDriver: func(t *testing.T) driver.Driver { return openTenant(t, server.Addr(), access, nil) },
			NewFaulty: func(t *testing.T) (driver.Driver, locktest.Fault) {
				proxy := faultproxy.New(t, server.Addr())
				return openTenant(t, proxy.Addr(), access, nil), proxy
			},
			NewPrefix: func(t *testing.T) string {
				prefix := newPrefix()
				server.Prepare(t, prefix, epoch)
				return prefix
			},
			Remove: func(t *testing.T, key driver.Key) {
				if err := server.Admin(t).Del(t.Context(), redisproto.LockKey(key.Prefix, key.Name)).Err(); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// An application without the operator hands in its own client, on which nothing was prepared.
func TestConformanceWithoutTheOperator(t *testing.T) {
	server := startServer(t, binding.AccessScripts)
	if err := server.Admin(t).ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	open := func(t *testing.T, address string) *redislock.Driver {
		options := server.ClientOptions("admin", server.AdminPassword())
		options.Addr = address
		return openClient(t, options, &redislock.Options{Access: binding.AccessScripts})
	}
	locktest.Run(t, locktest.Harness{
		NewDriver: func(t *testing.T) driver.Driver { return open(t, server.Addr()) },
		NewFaulty: func(t *testing.T) (driver.Driver, locktest.Fault) {
			proxy := faultproxy.New(t, server.Addr())
			return open(t, proxy.Addr()), proxy
		},
		NewPrefix: func(*testing.T) string { return newPrefix() },
		Remove: func(t *testing.T, key driver.Key) {
			if err := server.Admin(t).Del(t.Context(), redisproto.LockKey(key.Prefix, key.Name)).Err(); err != nil {
				t.Fatal(err)
			}
		},
	})
}
