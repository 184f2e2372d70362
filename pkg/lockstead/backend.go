// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead

import (
	"fmt"

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
}

func borrowed(d driver.Driver) *backend {
	return &backend{driver: d, update: func(*binding.Binding) {}, close: func() error { return nil }}
}

// handedIn is the backend of an application that needs no binding.
func handedIn(o Options) *backend { return borrowed(o.Driver) }

// fromBinding is the backend that the binding names.
func fromBinding(o Options, b *binding.Binding) (*backend, error) {
	switch b.Type {
	case binding.TypeLease:
		return leaseBackend(o, b)
	default:
		return nil, fmt.Errorf("lockstead: the %s is of a type that this version does not know: update the library", b)
	}
}
