// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead

import (
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
)

func redisBackend(o Options, b *binding.Binding, dir string) (*backend, error) {
	d, err := redislock.FromBinding(b, &redislock.Options{
		// Read before each new connection, so that a password that was rotated a moment ago is used at once.
		Reload: func() (*binding.Binding, error) { return binding.Load(dir) },
		Logger: o.Logger, Clock: o.Clock,
	})
	if err != nil {
		return nil, err
	}
	return &backend{driver: d, update: d.Update, close: d.Close, redis: d.Client()}, nil
}

// redisHandedIn is the backend on the application's own client. Without the binding of a server that an operator prepared there are no
// functions on it, so the driver sends its scripts.
func redisHandedIn(o Options, b *binding.Binding) (*backend, error) {
	options := &redislock.Options{Access: binding.AccessScripts, Logger: o.Logger, Clock: o.Clock}
	if b != nil {
		options.MaxTTL = b.TTLMax
		if b.Redis != nil {
			options.Access = b.Redis.Access
		}
	}
	d, err := redislock.New(o.Redis, options)
	if err != nil {
		return nil, err
	}
	return &backend{driver: d, update: ignore, close: d.Close, redis: o.Redis}, nil
}
