// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"bytes"
	"errors"
	"net"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore/recordproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

var errCrashed = errors.New("the operator has ended")

// crash ends an operator at a point between two writes, to the API server or to a Redis server: nothing gets through from there on. The zero
// value never does.
type crash struct {
	mu      sync.Mutex
	armed   bool
	left    int
	crashed bool
}

// after arms the crash for the point with n points before it.
func (c *crash) after(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.left, c.crashed = true, n, false
}

func (c *crash) happened() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crashed
}

func (c *crash) point() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed {
		return nil
	}
	if c.left > 0 {
		c.left--
		return nil
	}
	c.crashed = true
	return errCrashed
}

// crashingConn has a point before each change of a user or of a share for records, and one before its reply is read.
type crashingConn struct {
	net.Conn
	crash   *crash
	changed bool
}

func (c *crashingConn) Write(data []byte) (int, error) {
	if bytes.Contains(data, []byte("SETUSER")) || bytes.Contains(data, []byte("DELUSER")) ||
		bytes.Contains(data, []byte(recordproto.FunctionGrant)) || bytes.Contains(data, []byte(recordproto.FunctionWithdraw)) {
		if err := c.crash.point(); err != nil {
			return 0, err
		}
		c.changed = true
	}
	return c.Conn.Write(data) //nolint:wrapcheck // It is the connection's.
}

func (c *crashingConn) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	if c.changed && err == nil {
		c.changed = false
		if err := c.crash.point(); err != nil {
			return 0, err
		}
	}
	return n, err //nolint:wrapcheck // As above.
}

// managed makes a RedisInstance whose server the operator runs, with a real server in place of the pod.
func (b *bench) managed() (*v1alpha1.RedisInstance, *redistest.Server) {
	b.t.Helper()
	instance := b.instance(func(s *v1alpha1.RedisInstanceSpec) {
		s.Mode, s.External, s.Managed = v1alpha1.ModeManaged, nil, &v1alpha1.ManagedServer{Engine: v1alpha1.EngineRedis}
	})
	b.examine(instance)
	var users []redisproto.User
	for name, rules := range map[string][]string{"admin": redisproto.OperatorRules(), "probe": redisproto.ProbeRules()} {
		data := b.instanceSecret(name)
		users = append(users, redisproto.User{
			Name: string(data["username"]), PasswordHashes: []string{redisproto.PasswordHash(string(data["password"]))}, Rules: rules,
		})
	}
	server := redistest.Start(b.t, &redistest.Options{Users: users})
	b.address = server.Addr()
	statefulSet := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "locks-redis"}}
	environment.Get(b.t, statefulSet)
	statefulSet.Status.Replicas, statefulSet.Status.ReadyReplicas = 1, 1
	if err := environment.Admin.Status().Update(b.t.Context(), statefulSet); err != nil {
		b.t.Fatal(err)
	}
	b.examine(instance)
	return instance, server
}

// instanceSecret is a Secret of the managed server.
func (b *bench) instanceSecret(name string) map[string][]byte {
	b.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "locks-redis-" + name}}
	environment.Get(b.t, secret)
	return secret.Data
}
