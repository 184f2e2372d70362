// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lockers puts this library and those that it is compared with behind one interface.
package lockers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// TTL is that of all locks here: nothing that is measured takes as long.
const TTL = 30 * time.Second

// ErrBusy says that the key was held by somebody else until the end of the wait.
var ErrBusy = errors.New("the key is held")

// Release ends a lock.
type Release func(ctx context.Context) error

// Locker takes locks. It is safe for concurrent use.
type Locker interface {
	// Acquire waits for the key; wait 0 is one attempt. The error is ErrBusy if somebody else had it until the end of the wait.
	Acquire(ctx context.Context, key string, wait time.Duration) (Release, error)
	// Close ends what the locker started.
	Close()
}

// Servers are those of a run. Those that were not started are zero.
type Servers struct {
	Redis    Redis
	Postgres string
	API      API
}

// Redis is a server, and a user with every right.
type Redis struct{ Address, User, Password string }

// API is an API server.
type API struct {
	Host                  string
	CertData, KeyData, CA []byte
	// Namespace is where Leases are made.
	Namespace string
}

// Subject is one way to take locks.
type Subject struct {
	Name string
	// Peer says that it is another library; what is neither ours nor a peer is the bare protocol.
	Peer bool
	// Requests are the Redis commands that it sends; what else it causes, its scripts run within the server. "" at the end of a name stands for all
	// of its subcommands.
	Requests []string
	// Open connects.
	Open func(ctx context.Context, servers Servers) (Locker, error)
}

// Named finds a subject of any backend.
func Named(name string) (Subject, error) {
	for _, s := range append(append(OnRedis(), OnLeases()...), OnPostgres()...) {
		if s.Name == name {
			return s, nil
		}
	}
	return Subject{}, fmt.Errorf("there is no subject %q", name)
}
