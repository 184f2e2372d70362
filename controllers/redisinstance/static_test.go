// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// staticBench has a server whose users the operator may not administer: its own lacks the right to run ACL.
func staticBench(t *testing.T, config ...string) (*bench, *redistest.Server) {
	t.Helper()
	users := []redisproto.User{
		{Name: "platform", PasswordHashes: []string{redisproto.PasswordHash("platform's")}, Rules: []string{"~*", "&*", "+@all", "-acl"}},
		{Name: "everybody", PasswordHashes: []string{redisproto.PasswordHash("everybody's")}, Rules: []string{"~*", "&*", "+@all", "-@admin"}},
	}
	server := redistest.Start(t, &redistest.Options{Config: config, Users: users})
	spec := external()
	spec.External.ACLManagement = v1alpha1.ACLManagementStatic
	spec.External.TenantCredentials = &v1alpha1.TenantCredentials{SecretName: "app"}
	b := newBench(t, spec)
	b.address = server.Addr()
	b.secret("admin", map[string]string{"username": "platform", "password": "platform's"})
	return b, server
}

func TestAServerWhoseUsersNobodyAdministers(t *testing.T) {
	for name, config := range map[string][]string{"functions": nil, "scripts": withoutFunctions()} {
		t.Run(name, func(t *testing.T) {
			b, server := staticBench(t, config...)
			b.secret("app", map[string]string{"username": "everybody", "password": "everybody's"})
			b.reconcile()
			b.wantCondition(v1alpha1.ConditionAvailable, "True", v1alpha1.ReasonAvailable)
			// The default user cannot be looked at, and nobody pretends that it was.
			b.wantCondition(v1alpha1.ConditionLockSafe, "Unknown", v1alpha1.ReasonUnverified)
			for _, capability := range b.instance.Status.Capabilities {
				if capability == v1alpha1.CapabilityACL {
					t.Error("ACL is among the capabilities")
				}
			}
			a := b.application("billing")
			programmed, err := b.tenants.Program(t.Context(), b.instance, a.tenant())
			if err != nil {
				t.Fatal(err)
			}
			reached := programmed.Server
			if reached.Username != "everybody" || reached.Password != "everybody's" {
				t.Errorf("the binding is for %s", reached.Username)
			}
			if _, err := a.driverOf(server).Acquire(t.Context(), a.request("key", "a")); err != nil {
				t.Errorf("acquire: %v", err)
			}
			if err := b.tenants.Revoke(t.Context(), b.instance, a.tenant().Username); err != nil {
				t.Errorf("revoke: %v", err)
			}
			b.reconcile()
			b.wantNoWrites()
			users := server.Admin(t).Do(t.Context(), "ACL", "USERS").String()
			if strings.Contains(users, "lk-") {
				t.Errorf("users are %s", users)
			}
		})
	}
}

func TestWithoutTheTenantsCredentialsNothingIsProgrammed(t *testing.T) {
	b, _ := staticBench(t)
	b.reconcile()
	if message := b.wantUnavailable(v1alpha1.ReasonCredentialsInvalid); !strings.Contains(message, "Secret app does not exist") {
		t.Errorf("message is %q", message)
	}
	a := b.application("billing")
	if _, err := b.tenants.Program(t.Context(), b.instance, a.tenant()); !errors.Is(err, redisinstance.ErrNotAvailable) || !strings.Contains(err.Error(), "Secret app does not exist") {
		t.Errorf("program: %v", err)
	}
}
