// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
)

// observation is what a reconciliation found.
type observation struct {
	// unavailable is why the server cannot be used; nil when it can.
	unavailable *unavailableError
	// server is what the probe found; nil when there was none.
	server *redisadmin.Server
	// secured: connections are to be secured with TLS.
	secured bool
	// shown is the certificate of the server; nil when it was not seen.
	shown *shown
	// plan is set with server.
	plan plan
	// users are the LockNamespaces that are bound.
	users []string
	// unprotected: it may be deleted all the same.
	unprotected bool
	// remaining is how long a quarantine still lasts.
	remaining time.Duration
	// progress is what is under way on a managed server.
	progress progress
	// managed: the operator runs the server.
	managed bool
	// settled: the pod of a managed server runs with the present configuration, so that whatever differs was changed by hand, and put right.
	settled bool
	// changed are the settings that somebody had changed.
	changed []settingChange
	// selfArm: the server may grant locks after a restart without the operator.
	selfArm bool
	// shared: all applications log in as one user.
	shared bool
	// records is what was found of idempotency records.
	records recordMemory
	// acl is how many users are programmed; nil when they were not counted.
	acl *userCount
}

// conditions are the conditions for what was found, without times.
func conditions(o observation) []metav1.Condition {
	available, safe, users := availability(o), lockSafety(o), programmedUsers(o)
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "The server keeps locks."}
	causes := []metav1.Condition{safe, available}
	if o.acl != nil && o.acl.refused > 0 {
		causes = []metav1.Condition{users, safe, available}
	}
	for _, cause := range causes {
		// What is known to be wrong is told before what is not known.
		if cause.Status == metav1.ConditionFalse || cause.Status == metav1.ConditionUnknown && ready.Status == metav1.ConditionTrue {
			ready.Status, ready.Reason, ready.Message = cause.Status, cause.Reason, cause.Message
		}
	}
	all := []metav1.Condition{ready, available, safe, users, progressing(o), deletionBlocked(o)}
	if secured := certificateCondition(o); secured != nil {
		all = append(all, *secured)
	}
	return all
}

// programmedUsers says whether the server has the users of all LockNamespaces.
func programmedUsers(o observation) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionACLProgrammed, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUsersPending}
	switch {
	case o.shared:
		c.Reason = v1alpha1.ReasonNotEnforced
		c.Message = "Nobody administers the users of the server (aclManagement: Static). All applications log in as one user, and nothing keeps them apart."
	case o.acl == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnverified, "The users of the server were not examined."
	case o.acl.programmed < o.acl.wanted:
		c.Message = fmt.Sprintf("%s users of LockNamespaces are on the server as they should be. See the conditions of the LockNamespaces.", o.acl)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonUsersProgrammed
		c.Message = fmt.Sprintf("%s users of LockNamespaces are on the server as they should be.", o.acl)
	}
	return c
}

func availability(o observation) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse}
	switch {
	case o.unavailable != nil:
		c.Reason, c.Message = o.unavailable.reason, o.unavailable.message
	case !o.plan.grant:
		c.Reason = v1alpha1.ReasonQuarantined
		c.Message = fmt.Sprintf("The server may have lost locks that are still held. It grants nothing before %s, when the longest TTL is over; "+
			"locks that it has can be renewed and released.", o.plan.quarantineUntil.UTC().Format(time.RFC3339))
	case o.server != nil && !o.server.Functions:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonAvailable
		c.Message = "The server is programmed and grants locks. It has no functions, so applications run scripts, and after a restart it grants nothing until the operator has loaded them."
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonAvailable, "The server is programmed and grants locks."
	}
	return c
}

// unsupported says why a server cannot keep locks at all.
func unsupported(server redisadmin.Server) error {
	var why string
	switch {
	case server.Cluster:
		why = "The server runs in cluster mode, which is not supported. Use a single server."
	case !server.Primary:
		why = "The server is a replica. Name its primary."
	case !server.Functions && older(server):
		why = fmt.Sprintf("%s %s has no functions, and keeps loaded scripts over a restart, so nothing would tell that it may have lost locks. Use Redis 7.0 or Valkey 7.2, or newer.", server.Engine, server.Version)
	case !server.Functions && !server.Scripts:
		why = fmt.Sprintf("%s %s lets the operator's user load neither functions nor scripts. Grant it FUNCTION, or SCRIPT on a server without functions.", server.Engine, server.Version)
	default:
		return nil
	}
	return &unavailableError{v1alpha1.ReasonUnsupportedServer, why}
}
