// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"k8s.io/client-go/rest"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/pglock"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
)

// Store says where the locks are: one of its fields is set.
type Store struct {
	Redis    *Redis    `json:"redis,omitempty"`
	Lease    *Lease    `json:"lease,omitempty"`
	Postgres *Postgres `json:"postgres,omitempty"`
}

// Redis is a Redis server, or one behind sentinels.
type Redis struct {
	Address   string         `json:"address"`
	Sentinels []string       `json:"sentinels,omitempty"`
	Primary   string         `json:"primary,omitempty"`
	User      string         `json:"user"`
	Password  string         `json:"password"`
	Access    binding.Access `json:"access"`
}

// Lease is a namespace of a Kubernetes API server that is reached at Address, whatever its URL says.
type Lease struct {
	Host      string `json:"host"`
	Address   string `json:"address"`
	CA        []byte `json:"ca"`
	Token     string `json:"token"`
	Namespace string `json:"namespace"`
	Epoch     uint64 `json:"epoch"`
}

// Postgres is a database with pglock's tables.
type Postgres struct {
	URL string `json:"url"`
}

// open opens the store; the caller ends it with both functions, the driver first.
func (s Store) open(ctx context.Context, c clock.Clock) (d driver.Driver, end func(), err error) {
	end = func() {}
	switch {
	case s.Redis != nil:
		client := s.Redis.client()
		d, err = redislock.New(client, &redislock.Options{Access: s.Redis.Access, Clock: c})
		end = func() { _ = client.Close() }
	case s.Lease != nil:
		d, err = leaselock.New(s.Lease.config(), s.Lease.Namespace, &leaselock.Options{Epoch: s.Lease.Epoch, Clock: c})
	case s.Postgres != nil:
		config, parseErr := pgx.ParseConfig(s.Postgres.URL)
		if parseErr != nil {
			return nil, end, errors.New("the address of the database is no URL")
		}
		d, err = pglock.New(ctx, config, &pglock.Options{Clock: c})
	default:
		err = errors.New("no store was named")
	}
	if err != nil {
		return nil, end, fmt.Errorf("open the store: %w", err)
	}
	return d, end, nil
}

func (r *Redis) client() redis.UniversalClient {
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if len(r.Sentinels) > 0 {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: r.Primary, SentinelAddrs: r.Sentinels, Username: r.User, Password: r.Password,
			MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
		})
	}
	return redis.NewClient(&redis.Options{
		Addr: r.Address, Username: r.User, Password: r.Password,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true, MaintNotificationsConfig: quiet,
	})
}

func (l *Lease) config() *rest.Config {
	return &rest.Config{
		Host: l.Host, BearerToken: l.Token, TLSClientConfig: rest.TLSClientConfig{CAData: l.CA},
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, l.Address)
		},
	}
}
