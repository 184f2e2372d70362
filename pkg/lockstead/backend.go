// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// backend is a driver and how to end it.
type backend struct {
	driver driver.Driver
	// update takes in a later binding of the same backend.
	update func(*binding.Binding)
	// close closes what Open made.
	close func() error
	// redis is the client to the server of the binding; nil for another backend.
	redis redis.UniversalClient
}

// ignore is the update of a backend that has nothing of the binding.
func ignore(*binding.Binding) {}

// handedIn is the backend of an application that needs no binding.
func handedIn(o Options) (*backend, error) {
	if o.Driver != nil {
		return &backend{driver: o.Driver, update: ignore, close: func() error { return nil }}, nil
	}
	return redisHandedIn(o, nil)
}

// fromBinding is the backend that the binding names, unless the application handed in a client that goes in its place.
func fromBinding(o Options, b *binding.Binding, dir string) (*backend, error) {
	if o.Redis != nil {
		return redisHandedIn(o, b)
	}
	switch b.Type {
	case binding.TypeLease:
		return leaseBackend(o, b)
	case binding.TypeRedis:
		return redisBackend(o, b, dir)
	default:
		return nil, fmt.Errorf("lockstead: the %s is of a type that this version does not know: update the library", b)
	}
}
