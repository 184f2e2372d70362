// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// afterRead does something once, right after the file that a managed server boots from was read for the n-th time.
type afterRead struct {
	client.Client
	left int
	do   func()
}

func (c *afterRead) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := c.Client.Get(ctx, key, object, options...)
	if _, ok := object.(*corev1.Secret); ok && key.Name == "locks-redis-acl" {
		if c.left--; c.left == 0 {
			c.do()
		}
	}
	return err //nolint:wrapcheck // It is the client's.
}

// The controller of LockNamespaces changes users while the one of RedisInstances compares them. What the latter has read is old then.
func TestAUserThatChangesWhileUsersAreComparedStaysSo(t *testing.T) {
	b := newBench(t, managed())
	b.reconcile()
	server := b.startPod()
	b.reconcile()
	// The other controller's view.
	tenants := b.tenants
	for _, lost := range []bool{false, true} {
		for n, reached := 1, true; reached; n++ {
			rotated, revoked := b.application(fmt.Sprintf("rotated-%t-%d", lost, n)), b.application(fmt.Sprintf("revoked-%t-%d", lost, n))
			rotated.program()
			revoked.program()
			old, fresh := rotated.password, redisadmin.NewPassword()
			if lost {
				run(t, server, "ACL", "DELUSER", rotated.tenant().Username, revoked.tenant().Username)
			} else {
				// Both are written anew.
				run(t, server, "ACL", "SETUSER", rotated.tenant().Username, "+keys")
				run(t, server, "ACL", "SETUSER", revoked.tenant().Username, "+keys")
			}
			reached = false
			b.startOperator(&afterRead{Client: environment.Manager, left: n, do: func() {
				reached = true
				tenant := rotated.tenant()
				tenant.Password, tenant.Previous = fresh, []string{redisproto.PasswordHash(old)}
				if _, err := tenants.Program(t.Context(), b.instance, tenant); err != nil {
					t.Error(err)
				}
				if err := tenants.Revoke(t.Context(), b.instance, revoked.tenant().Username); err != nil {
					t.Error(err)
				}
			}})
			b.reconcile()
			if !reached {
				if n < 3 {
					t.Errorf("the file was read %d times, which is not enough for this test", n-1)
				}
				break
			}
			for i, password := range []string{old, fresh} {
				if err := server.Client(t, rotated.tenant().Username, password).Ping(t.Context()).Err(); err != nil {
					t.Errorf("lost: %t, read %d: password %d after a rotation: %v", lost, n, i+1, err)
				}
			}
			users, err := server.Admin(t).Do(t.Context(), "ACL", "USERS").StringSlice()
			if err != nil || slices.Contains(users, revoked.tenant().Username) {
				t.Errorf("lost: %t, read %d: the revoked user is there: %v", lost, n, err)
			}
		}
	}
}
