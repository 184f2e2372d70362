// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"context"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
)

// RedisTenants keeps the users of LockNamespaces on the servers of RedisInstances; redisinstance.Tenants does. Its errors carry no password
// and no name of another tenant.
type RedisTenants interface {
	// Program makes the server grant locks to a tenant, and returns after what it made was read back. It is repeated with every
	// reconciliation and writes only differences. redisinstance.ErrNotAvailable: the server cannot be programmed now.
	// redisinstance.RefusedError: the server answers, and somebody has to do something about it.
	Program(ctx context.Context, instance *v1alpha1.RedisInstance, tenant redisinstance.Tenant) (redisinstance.Grant, error)
	// Revoke removes a user, which ends its connections. No such user is not an error.
	Revoke(ctx context.Context, instance *v1alpha1.RedisInstance, username string) error
}
