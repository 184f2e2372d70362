// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// afterFirstList does something right after LockNamespaces were listed for the first time.
type afterFirstList struct {
	client.Client
	once sync.Once
	do   func()
}

func (c *afterFirstList) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := c.Client.List(ctx, list, options...)
	if _, ok := list.(*v1alpha1.LockNamespaceList); ok {
		c.once.Do(c.do)
	}
	return err //nolint:wrapcheck // It is the client's.
}

func TestAUserThatIsMadeDuringAReconciliationStays(t *testing.T) {
	b := newBench(t, managed())
	b.reconcile()
	server := b.startPod()
	b.reconcile()
	var late *application
	watched := &afterFirstList{Client: environment.Manager, do: func() {
		late = b.application("late")
		late.program()
	}}
	b.startOperator(watched)
	b.reconcile()
	if got := late.acquire(server, "k"); strings.ContainsAny(got, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t.Errorf("acquire with the user that was made in between: %s", got)
	}
	if file := string(b.getSecret("locks-redis-acl").Data["users.acl"]); !strings.Contains(file, late.tenant().Username) {
		t.Error("the boot file lost the user")
	}
}

func TestAnOldViewOfTheInstanceDoesNotEndAQuarantine(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	lost, other := b.application("lost"), b.application("other")
	lost.program()
	other.program()
	b.reconcile()
	old := b.instance.DeepCopy()
	if err := server.Admin(t).Del(t.Context(), redisproto.EpochKey(lost.tenant().Prefix)).Err(); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonQuarantined)
	if _, err := b.tenants.Program(t.Context(), old, other.tenant()); !errors.Is(err, redisinstance.ErrNotAvailable) {
		t.Errorf("programmed by an old view: %v", err)
	}
	if got := other.acquire(server, "k"); got != redisproto.CodeNotArmed {
		t.Errorf("acquire in the quarantine: %s", got)
	}
}
