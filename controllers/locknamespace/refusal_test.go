// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// A server that answers, and refuses, is not told as one that cannot be reached: somebody has to do something about it.
func TestAServerThatRefusesToBeProgrammed(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	admin := server.Admin(t)
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "person", "on", ">person", "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	person := server.Client(t, "person", "person")
	right := func(rule string) {
		t.Helper()
		if err := person.Do(t.Context(), "ACL", "SETUSER", "admin", rule).Err(); err != nil {
			t.Fatal(err)
		}
	}
	wantInstance := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		b.examine(instance)
		ready := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionReady)
		if ready.Status != status || ready.Reason != reason {
			t.Errorf("Ready of the RedisInstance is %+v, want %s %s", ready, status, reason)
		}
	}
	right("-acl|setuser")
	a := b.application(b.namespace, "billing", on(instance))
	if result := a.reconcile(); result.RequeueAfter == 0 {
		t.Error("it is not looked at again")
	}
	message := a.wantUnprogrammed(v1alpha1.ReasonProgramFailed)
	for _, want := range []string{instance.Namespace + "/" + instance.Name, "acl|setuser", "Ask its owner to grant"} {
		if !strings.Contains(message, want) {
			t.Errorf("the condition says %q, nothing of %q", message, want)
		}
	}
	a.wantNoWrites()
	if a.object.Status.Binding != nil {
		t.Error("a binding to nothing was written")
	}
	wantInstance(metav1.ConditionFalse, v1alpha1.ReasonUsersPending)
	right("+acl|setuser")
	a.reconcile()
	a.wantReady()
	wantInstance(metav1.ConditionTrue, v1alpha1.ReasonReady)
	if err := a.acquire(server, redisproto.Prefix("lk", b.namespace+"/billing"), "key"); err != nil {
		t.Errorf("acquire: %v", err)
	}
}

// While a LockNamespace is being bound its user is not there yet, and nothing is wrong.
func TestAnInstanceStaysReadyWhileLockNamespacesAreBound(t *testing.T) {
	b := newBench(t)
	instance, _ := b.redis()
	a := b.application(b.namespace, "billing", on(instance))
	address := b.address
	b.address = ""
	a.reconcile() // It is recorded, and goes no further.
	b.address = address
	b.examine(instance)
	condition := func(kind string) metav1.Condition {
		return *meta.FindStatusCondition(instance.Status.Conditions, kind)
	}
	if ready, users := condition(v1alpha1.ConditionReady), condition(v1alpha1.ConditionACLProgrammed); ready.Status != metav1.ConditionTrue || users.Reason != v1alpha1.ReasonUsersPending {
		t.Errorf("Ready is %+v, ACLProgrammed %+v", ready, users)
	}
	a.reconcile()
	a.wantReady()
}
