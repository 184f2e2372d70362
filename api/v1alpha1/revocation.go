// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/api/meta"

// RevokesAccess reports whether access to a server that was granted ends for a reason of Accepted. Asking for too much takes
// nothing away.
func RevokesAccess(reason string) bool {
	switch reason {
	case ReasonNotAllowedByInstance, ReasonPrefixTaken, ReasonShareNotGranted, ReasonShareOwnerNotReady, ReasonShareOwnerMoved:
		return true
	}
	return false
}

// AccessRevoked reports whether the LockNamespace has lost the access that it had.
func (n *LockNamespace) AccessRevoked() bool {
	accepted := meta.FindStatusCondition(n.Status.Conditions, ConditionAccepted)
	return accepted != nil && RevokesAccess(accepted.Reason)
}
