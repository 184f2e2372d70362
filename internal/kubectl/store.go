// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
)

const (
	// attemptTimeout bounds one request to a store, with the connection that it may need.
	attemptTimeout = 20 * time.Second
	closeTimeout   = 5 * time.Second
	// owner is what others read about locks that verify takes.
	owner = "kubectl lockstead"
)

// store is the open lock store of one LockNamespace.
type store struct {
	*lock.Client
	way   fmt.Stringer
	close func()
}

// open opens the store of a LockNamespace. Whoever only looks at Leases needs no Secret; fences says that fencing tokens will be
// made, whose epoch is in it.
func (c *cluster) open(ctx context.Context, lns *v1alpha1.LockNamespace, fences bool) (*store, error) {
	switch lns.Status.Backend {
	case v1alpha1.BackendLease:
		return c.openLeases(ctx, lns, fences)
	case v1alpha1.BackendRedis:
		b, err := c.binding(ctx, lns)
		if err != nil {
			return nil, err
		}
		return c.openRedis(lns, b)
	}
	_, words := readiness(lns.Status.Conditions, lns.Generation)
	return nil, problemf("LockNamespace %s/%s is not bound to a backend: %s", lns.Namespace, lns.Name, words)
}

// binding reads the Secret of a LockNamespace.
func (c *cluster) binding(ctx context.Context, lns *v1alpha1.LockNamespace) (*binding.Binding, error) {
	if lns.Status.Binding == nil {
		_, words := readiness(lns.Status.Conditions, lns.Generation)
		return nil, problemf("LockNamespace %s/%s has no binding Secret yet: %s", lns.Namespace, lns.Name, words)
	}
	var secret corev1.Secret
	name := lns.Status.Binding.Name
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: lns.Namespace, Name: name}, &secret); err != nil {
		return nil, c.explain(fmt.Sprintf("read Secret %s/%s, with which the application logs in", lns.Namespace, name), err)
	}
	b, err := binding.Parse(secret.Data)
	if err != nil {
		return nil, &Problem{Err: err, Text: fmt.Sprintf("Secret %s/%s is no binding (%s): delete it, and the operator writes it anew", lns.Namespace, name, oneLine(err.Error()))}
	}
	return b, nil
}

func (c *cluster) openLeases(ctx context.Context, lns *v1alpha1.LockNamespace, fences bool) (*store, error) {
	options := &leaselock.Options{LockNamespace: lns.Namespace + "/" + lns.Name, AttemptTimeout: attemptTimeout}
	if fences {
		b, err := c.binding(ctx, lns)
		if err != nil {
			return nil, err
		}
		if b.Lease == nil {
			return nil, problemf("Secret %s/%s is the binding of another backend: delete it, and the operator writes it anew", lns.Namespace, lns.Status.Binding.Name)
		}
		options.Epoch = b.Lease.Epoch
	}
	d, err := leaselock.New(c.config, lns.Namespace, options)
	if err != nil {
		return nil, c.explain("use the kubeconfig", err)
	}
	return newStore(d, lns.Status.Prefix, leases{c.config.Host})
}

func (c *cluster) openRedis(lns *v1alpha1.LockNamespace, b *binding.Binding) (*store, error) {
	if b.Redis == nil {
		return nil, problemf("Secret %s/%s is the binding of another backend: delete it, and the operator writes it anew", lns.Namespace, lns.Status.Binding.Name)
	}
	w := wayTo(lns.Status.InstanceRef, b.Redis, c.redisAddress)
	// As redislock.FromBinding makes it, but for the way.
	server := redis.NewClient(&redis.Options{
		Addr: b.Redis.Address(),
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := w.connect(ctx, c.config)
			if err != nil {
				return nil, err
			}
			return secure(ctx, conn, b.Redis)
		},
		Username: b.Redis.Username, Password: b.Redis.Password,
		Protocol: 2, MaxRetries: -1, DialerRetries: 1, PoolSize: 2, PipelinePoolSize: 1,
		DialTimeout: attemptTimeout, ReadTimeout: attemptTimeout, WriteTimeout: attemptTimeout, PoolTimeout: attemptTimeout,
		ContextTimeoutEnabled: true, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	d, err := redislock.New(server, &redislock.Options{Access: b.Redis.Access, Operated: true, MaxTTL: b.TTLMax, AttemptTimeout: attemptTimeout})
	if err != nil {
		return nil, errors.Join(&Problem{Err: err, Text: "the binding cannot be used: " + oneLine(err.Error())}, server.Close())
	}
	return newStore(closing{d, server}, b.Prefix, w)
}

// closing is a driver that closes the client that was made for it.
type closing struct {
	*redislock.Driver
	server *redis.Client
}

func (c closing) Close() error { return errors.Join(c.Driver.Close(), c.server.Close()) }

func newStore(d driver.Driver, prefix string, w fmt.Stringer) (*store, error) {
	locks, err := lock.New(d, prefix, &lock.Options{AttemptTimeout: attemptTimeout, Owner: owner})
	if err != nil {
		return nil, errors.Join(&Problem{Err: err, Text: "the binding cannot be used: " + oneLine(err.Error())}, d.Close())
	}
	return &store{Client: locks, way: w, close: func() {
		// The command's context may have ended.
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = locks.Close(ctx)
		_ = d.Close()
	}}, nil
}
