// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// shownUsers is how many LockNamespaces a message names.
const shownUsers = 10

// deletionBlocked tells what the admission policy of config/admission decides by status.lockNamespaces.
func deletionBlocked(o observation) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionDeletionBlocked, Status: metav1.ConditionFalse}
	switch {
	case len(o.users) == 0:
		c.Reason, c.Message = v1alpha1.ReasonNotInUse, "No LockNamespace is bound."
	case o.unprotected:
		c.Reason, c.Message = v1alpha1.ReasonProtectionDisabled, fmt.Sprintf("A deletion loses the locks of %s.", usersInWords(o.users))
	default:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonInUse
		c.Message = fmt.Sprintf("In use by %s. To delete the RedisInstance, delete them first, or set deletionProtection: Disabled.", usersInWords(o.users))
	}
	return c
}

func usersInWords(users []string) string {
	shown := slices.Sorted(slices.Values(users))
	more := ""
	if len(shown) > shownUsers {
		more = fmt.Sprintf(" and %d more", len(shown)-shownUsers)
		shown = shown[:shownUsers]
	}
	return "LockNamespaces " + strings.Join(shown, ", ") + more
}

// names are namespace/name of LockNamespaces.
func names(bound []v1alpha1.LockNamespace) []string {
	var all []string
	for _, namespace := range bound {
		all = append(all, namespace.Namespace+"/"+namespace.Name)
	}
	return all
}
