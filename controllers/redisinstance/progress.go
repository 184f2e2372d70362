// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// progress is what is under way on a managed server.
type progress struct {
	// rolling says which pod is started or replaced; empty is none.
	rolling string
	growth  growth
}

// rollout says whether the pod of a StatefulSet, as it was before it was changed if it was, is started or replaced.
func rollout(pod string, statefulSet *appsv1.StatefulSet, changed bool) string {
	status := statefulSet.Status
	switch {
	case status.ReadyReplicas == 0:
		return fmt.Sprintf("Pod %s starts.", pod)
	case changed, status.ObservedGeneration < statefulSet.Generation, status.UpdatedReplicas < status.Replicas:
		return fmt.Sprintf("Pod %s is replaced by one with the present spec.", pod)
	}
	return ""
}

// progressing says whether a change of the server is under way. A refusal is told before what goes on, since it needs somebody.
func progressing(o observation) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse}
	switch p := o.progress; {
	case p.growth.refused != "":
		c.Reason = v1alpha1.ReasonResizeRefused
		c.Message = p.growth.refused + " Let the StorageClass allow expansion, or set managed.storage.size of another RedisInstance. The server goes on with the volume that it has."
	case p.rolling != "":
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonRolling, p.rolling
	case p.growth.growing != "":
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonResizing, p.growth.growing
	default:
		c.Reason, c.Message = v1alpha1.ReasonStable, "Nothing is under way."
	}
	return c
}
