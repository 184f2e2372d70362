// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// TakesBack reports whether access that was granted ends for a reason of Accepted. Asking for too much takes nothing away.
func TakesBack(reason string) bool {
	switch reason {
	case v1alpha1.ReasonNotAllowedByInstance, v1alpha1.ReasonPrefixTaken,
		v1alpha1.ReasonShareNotGranted, v1alpha1.ReasonShareOwnerNotReady, v1alpha1.ReasonShareOwnerMoved:
		return true
	}
	return false
}

// revoked reports whether a LockNamespace that is bound has lost its access.
func revoked(namespace *v1alpha1.LockNamespace) bool {
	accepted := meta.FindStatusCondition(namespace.Status.Conditions, v1alpha1.ConditionAccepted)
	return accepted != nil && TakesBack(accepted.Reason)
}
