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
	// plan is set with server.
	plan plan
	// users are the LockNamespaces that are bound.
	users []string
	// unprotected: it may be deleted all the same.
	unprotected bool
	// remaining is how long a quarantine still lasts.
	remaining time.Duration
}

// conditions are the conditions for what was found, without times.
func conditions(o observation) []metav1.Condition {
	available, safe := availability(o), lockSafety(o)
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "The server keeps locks."}
	for _, cause := range []metav1.Condition{safe, available} {
		if cause.Status != metav1.ConditionTrue {
			ready.Status, ready.Reason, ready.Message = cause.Status, cause.Reason, cause.Message
		}
	}
	return []metav1.Condition{ready, available, safe, deletionBlocked(o)}
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

// lockSafety says whether something makes the server lose, evict or expose locks. The worst is said first.
func lockSafety(o observation) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionLockSafe, Status: metav1.ConditionFalse}
	server := o.server
	switch {
	case server == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnverified, "The server was not examined yet."
	case server.Settings.Known && server.Settings.Eviction != "noeviction":
		c.Reason = v1alpha1.ReasonEvictionPolicyWrong
		c.Message = fmt.Sprintf("The server has maxmemory-policy %s and throws locks away when its memory is full. Set it to noeviction.", server.Settings.Eviction)
	case server.AOFError:
		c.Reason, c.Message = v1alpha1.ReasonAOFWriteFailing, "The server cannot write its append-only file, so locks are lost when it restarts. Look at its volume."
	case server.DefaultUser.Known && server.DefaultUser.Open:
		c.Reason = v1alpha1.ReasonDefaultUserOpen
		c.Message = `The default user has no password, so that whoever reaches the server can do anything. Run ACL SETUSER default off ~* &* +@all, and keep it in the server's configuration.`
	case server.Settings.AppendOnly && server.DefaultUser.Known && server.DefaultUser.Restricted:
		c.Reason = v1alpha1.ReasonDefaultUserRestricted
		c.Message = `The default user has limited rights, with which the server drops locks when it replays its append-only file. Run ACL SETUSER default off ~* &* +@all, and keep it in the server's configuration.`
	case !server.Settings.Known || !server.DefaultUser.Known:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonUnverified
		c.Message = "The server does not tell its settings or its default user to the operator. Grant the operator's user CONFIG GET and ACL GETUSER."
	case !server.SelfArm():
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonSafe
		c.Message = "Nothing was found that makes the server evict or expose locks. It does not keep every lock over a restart, so after each one it " +
			"grants nothing until the longest TTL is over."
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonSafe, "Nothing was found that makes the server lose, evict or expose locks."
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
	case !server.Functions && !server.Scripts:
		why = fmt.Sprintf("%s %s lets the operator's user load neither functions nor scripts. Grant it FUNCTION, or SCRIPT on a server without functions.", server.Engine, server.Version)
	default:
		return nil
	}
	return &unavailableError{v1alpha1.ReasonUnsupportedServer, why}
}
