// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

func TestWhichChangesOfAnInstanceMeanSomething(t *testing.T) {
	t.Parallel()
	before := &v1alpha1.RedisInstance{
		ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: "1", Generation: 1},
		Status: v1alpha1.RedisInstanceStatus{Epoch: 7, RunID: "a", LockNamespaces: 1, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAvailable},
			{Type: v1alpha1.ConditionACLProgrammed, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUsersPending, Message: "1 of 2"},
		}},
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.RedisInstance)
		want   bool
	}{
		"more LockNamespaces":      {func(i *v1alpha1.RedisInstance) { i.Status.LockNamespaces = 2 }, false},
		"other words":              {func(i *v1alpha1.RedisInstance) { i.Status.Conditions[1].Message = "2 of 3" }, false},
		"another reason":           {func(i *v1alpha1.RedisInstance) { i.Status.Conditions[1].Reason = v1alpha1.ReasonUsersProgrammed }, true},
		"it is not available":      {func(i *v1alpha1.RedisInstance) { i.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		"the server has restarted": {func(i *v1alpha1.RedisInstance) { i.Status.RunID = "b" }, true},
		"another epoch":            {func(i *v1alpha1.RedisInstance) { i.Status.Epoch = 8 }, true},
		"another spec":             {func(i *v1alpha1.RedisInstance) { i.Generation = 2 }, true},
		"another object":           {func(i *v1alpha1.RedisInstance) { i.UID = "b" }, true},
		"a look from time to time": {func(i *v1alpha1.RedisInstance) { i.ResourceVersion = "1" }, true},
	} {
		after := before.DeepCopy()
		after.ResourceVersion = "2"
		tc.change(after)
		if got := instanceChanges.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
			t.Errorf("%s: passed on %t", name, got)
		}
	}
}
