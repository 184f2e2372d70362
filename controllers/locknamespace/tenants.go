// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"context"
	"errors"
	"time"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/binding"
)

// ErrInstanceNotAvailable says that the server of a RedisInstance cannot be programmed now; its conditions tell why. The LockNamespace is
// looked at again when they change.
var ErrInstanceNotAvailable = errors.New("the server is not available")

// RedisTenants keeps the users of LockNamespaces on the servers of RedisInstances. Its errors carry no password and no name of another
// tenant.
type RedisTenants interface {
	// Program makes the server grant locks to a tenant, and returns after what it made was read back: the user, its password and rules, and
	// the epoch record of its prefix; and for a managed server, the user in the file that the server boots from. It is repeated with every
	// reconciliation and writes only differences.
	Program(ctx context.Context, instance *v1alpha1.RedisInstance, tenant Tenant) (Programmed, error)
	// Revoke removes a tenant's user, which ends its connections. Keys and epoch records stay. No such user is not an error.
	Revoke(ctx context.Context, instance *v1alpha1.RedisInstance, tenant Tenant) error
}

// Tenant is a LockNamespace as a server knows it.
type Tenant struct {
	// Prefix starts all its keys.
	Prefix string
	// Username is the name of its user.
	Username string
	// PasswordHashes are those of the passwords that are to work, as redisproto.PasswordHash gives them. Revoke ignores them.
	PasswordHashes []string
	// MaxTTL is the longest TTL that it is granted.
	MaxTTL time.Duration
}

// Programmed is how a tenant reaches its server.
type Programmed struct {
	Host string
	Port int
	TLS  bool
	// CA is a PEM bundle; empty means the system's roots.
	CA     []byte
	Access binding.Access
}
