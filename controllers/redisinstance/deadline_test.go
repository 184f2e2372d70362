// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
)

func TestARevocationDoesNotWaitForAServerThatIsKnownToBeDown(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	a := b.application("billing")
	a.program()
	b.address = ""
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonUnreachable)
	dialed := false
	b.dialer = func(context.Context, string, string) (net.Conn, error) {
		dialed = true
		return nil, errors.New("nobody is there")
	}
	if err := b.tenants.Revoke(t.Context(), b.instance, a.tenant().Username); !errors.Is(err, redisinstance.ErrNotAvailable) || dialed {
		t.Errorf("error is %v, connected: %t", err, dialed)
	}
	b.dialer, b.address = nil, server.Addr()
	b.reconcile()
	if err := b.tenants.Revoke(t.Context(), b.instance, a.tenant().Username); err != nil {
		t.Fatal(err)
	}
	if err := a.redis(server).Ping(t.Context()).Err(); err == nil {
		t.Error("the user still works")
	}
}

func TestWhatIsDoneForOneTenantHasADeadline(t *testing.T) {
	b, _ := externalBench(t)
	b.reconcile()
	a := b.application("billing")
	asked := 0
	watched := interceptor.NewClient(environment.Manager, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			asked++
			if until, ok := ctx.Deadline(); !ok || time.Until(until) > time.Minute {
				t.Errorf("%s is read without a deadline", key)
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	tenants := redisinstance.NewTenants(watched, watched, redisadmin.NewConnector(&redisadmin.Options{Dial: b.dial}))
	if _, err := tenants.Program(t.Context(), b.instance, a.tenant()); err != nil {
		t.Error(err)
	}
	if err := tenants.Revoke(t.Context(), b.instance, a.tenant().Username); err != nil {
		t.Error(err)
	}
	if asked < 2 {
		t.Errorf("%d objects were read", asked)
	}
}
