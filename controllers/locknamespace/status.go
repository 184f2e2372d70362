// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// record writes what a LockNamespace is bound to into its status.
func record(lns *v1alpha1.LockNamespace, t target, prefix string) {
	lns.Status.Backend = t.backend
	lns.Status.Prefix = prefix
	if t.backend == v1alpha1.BackendRedis {
		lns.Status.Username = usernameOf(lns)
		lns.Status.InstanceRef = &v1alpha1.BoundInstance{Namespace: t.instance.Namespace, Name: t.instance.Name, UID: string(t.uid)}
	}
}

// outcome is what became of a reconciliation, in the terms of the conditions.
type outcome struct {
	// accepted is an objection, or zero.
	accepted verdict
	// programmed is what became of the backend and the Secret. Only meaningful without an objection.
	programmed programmed
	// forOwner is what the owner of instance has to know of an objection, in an event.
	forOwner string
	instance *v1alpha1.RedisInstance
}

// programmed is how far the programming of a backend came: one of the two is zero.
type programmed struct {
	// done says that all is in place.
	done verdict
	// missing is what was in the way.
	missing verdict
	// records is what was decided about idempotency records.
	records recordGrant
}

func unprogrammed(v verdict) programmed { return programmed{missing: v} }

// setConditions derives all conditions from an outcome.
func setConditions(lns *v1alpha1.LockNamespace, o outcome, now time.Time) {
	set := func(kind string, status metav1.ConditionStatus, v verdict) {
		meta.SetStatusCondition(&lns.Status.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: v.reason, Message: v.message,
			ObservedGeneration: lns.Generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
	lns.Status.ObservedGeneration = lns.Generation
	switch v, granted := recordsVerdict(lns, o); {
	case v.reason == "":
		meta.RemoveStatusCondition(&lns.Status.Conditions, v1alpha1.ConditionRecordsGranted)
	case granted:
		set(v1alpha1.ConditionRecordsGranted, metav1.ConditionTrue, v)
	default:
		set(v1alpha1.ConditionRecordsGranted, metav1.ConditionFalse, v)
	}
	if o.accepted.reason != "" {
		set(v1alpha1.ConditionAccepted, metav1.ConditionFalse, o.accepted)
		set(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, verdict{v1alpha1.ReasonNotAccepted, "See condition Accepted."})
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, o.accepted)
		return
	}
	set(v1alpha1.ConditionAccepted, metav1.ConditionTrue, verdict{v1alpha1.ReasonAccepted, acceptedMessage(lns)})
	if missing := o.programmed.missing; missing.reason != "" {
		set(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, missing)
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, missing)
		return
	}
	set(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, o.programmed.done)
	set(v1alpha1.ConditionReady, metav1.ConditionTrue, verdict{v1alpha1.ReasonReady, "Mount Secret " + secretName(lns) + " and lock."})
}

func acceptedMessage(lns *v1alpha1.LockNamespace) string {
	if ref := lns.Status.InstanceRef; ref != nil {
		return "Locks are kept by RedisInstance " + ref.Namespace + "/" + ref.Name + "."
	}
	return "Locks are kept as Leases in this namespace."
}

// notice is a transition to tell people about.
type notice struct{ kind, reason, message string }

// transitions are the events of the way from one set of conditions to another. A repeated fault is no transition.
func transitions(before, after []metav1.Condition) []notice {
	var notices []notice
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionRecordsGranted} {
		was, now := meta.FindStatusCondition(before, kind), meta.FindStatusCondition(after, kind)
		if now == nil || was != nil && was.Status == now.Status && was.Reason == now.Reason {
			continue
		}
		if len(notices) > 0 && now.Reason == notices[0].reason || now.Reason == v1alpha1.ReasonNotAccepted {
			continue // It was told for Ready.
		}
		eventType := corev1.EventTypeNormal
		if now.Status != metav1.ConditionTrue {
			eventType = corev1.EventTypeWarning
		}
		notices = append(notices, notice{eventType, now.Reason, now.Message})
	}
	return notices
}
