// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
)

const noEviction = "noeviction"

// lockSafety says whether something makes the server lose, evict or expose locks. The worst is said first.
func lockSafety(o observation) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionLockSafe, Status: metav1.ConditionFalse}
	if o.server == nil {
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnverified, "The server was not examined yet."
		return c
	}
	for _, check := range []func(observation) (reason, message string){evicts, failsToWrite, exposed, changed, tooOld, nearlyFull, recordsStopped, recordSharesTooLarge} {
		if c.Reason, c.Message = check(o); c.Reason != "" {
			return c
		}
	}
	if !o.server.Settings.Known || !o.server.DefaultUser.Known {
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonUnverified
		c.Message = "The server does not tell its settings or its default user to the operator. Grant the operator's user CONFIG GET and ACL GETUSER."
		if !o.selfArm {
			c.Message += " Until then it grants nothing after each restart until the longest TTL is over."
		}
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonSafe, "Nothing was found that makes the server lose, evict or expose locks."
	if !o.selfArm {
		why := "It does not keep every lock over a restart"
		if o.server.Replicas > 0 {
			why = "It has replicas, which may be promoted without having every lock"
		}
		c.Message = "Nothing was found that makes the server evict or expose locks. " + why +
			", so after each restart it grants nothing until the longest TTL is over."
	}
	return c
}

func evicts(o observation) (reason, message string) {
	policy := o.server.Settings.Eviction()
	switch {
	case !o.server.Settings.Known || policy == noEviction:
		return "", ""
	case len(o.changed) > 0:
		return v1alpha1.ReasonEvictionPolicyWrong, "The server would have thrown locks away when its memory is full. " + putRightMessage(o.changed)
	}
	return v1alpha1.ReasonEvictionPolicyWrong, fmt.Sprintf("The server has maxmemory-policy %s and throws locks away when its memory is full. "+
		"Run CONFIG SET maxmemory-policy %s, and write it into the server's configuration.", policy, noEviction)
}

func failsToWrite(o observation) (reason, message string) {
	if !o.server.AOFError {
		return "", ""
	}
	return v1alpha1.ReasonAOFWriteFailing,
		"The server cannot write its append-only file, so locks are lost when it restarts. See its log, and whether its volume is full or broken."
}

// closeDefaultUser is what people have to do where the operator must not.
const closeDefaultUser = "Run ACL SETUSER default off ~* &* +@all, and write it into the server's configuration."

func exposed(o observation) (reason, message string) {
	user := o.server.DefaultUser
	remedy := closeDefaultUser
	if o.settled {
		remedy = "Somebody changed it by hand; it was closed again."
	}
	switch {
	case !user.Known:
		return "", ""
	case user.Open:
		return v1alpha1.ReasonDefaultUserOpen, "The default user has no password, so that whoever reaches the server can do anything. " + remedy
	case user.Restricted && o.server.Settings.AppendOnly():
		return v1alpha1.ReasonDefaultUserRestricted,
			"The default user has limited rights, with which the server drops locks when it replays its append-only file. " + remedy
	case user.On && o.settled:
		return v1alpha1.ReasonSettingsChanged, "The default user could log in. " + remedy
	}
	return "", ""
}

func changed(o observation) (reason, message string) {
	if len(o.changed) == 0 {
		return "", ""
	}
	return v1alpha1.ReasonSettingsChanged, putRightMessage(o.changed)
}

func putRightMessage(changes []settingChange) string {
	var list []string
	for _, change := range changes {
		list = append(list, fmt.Sprintf("%s was %q and is %q again", change.name, change.found, change.wanted))
	}
	return "Somebody changed settings of the server by hand; they were put right: " + strings.Join(list, ", ") + "."
}

// oldest are the oldest versions that are tested.
var oldest = map[string][2]int{"Redis": {7, 0}, "Valkey": {7, 2}}

func tooOld(o observation) (reason, message string) {
	if !older(*o.server) {
		return "", ""
	}
	floor := oldest[o.server.Engine]
	return v1alpha1.ReasonVersionTooOld, fmt.Sprintf("%s %s is older than %d.%d, the oldest version that is tested. Update the server.",
		o.server.Engine, o.server.Version, floor[0], floor[1])
}

// older reports whether a server is older than those that are tested.
func older(server redisadmin.Server) bool {
	floor := oldest[server.Engine]
	version, ok := majorMinor(server.Version)
	return ok && slices.Compare(version[:], floor[:]) < 0
}

func majorMinor(version string) (parsed [2]int, ok bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return parsed, false
	}
	for i := range parsed {
		number, err := strconv.Atoi(parts[i])
		if err != nil {
			return parsed, false
		}
		parsed[i] = number
	}
	return parsed, true
}

func nearlyFull(o observation) (reason, message string) {
	limit := o.server.MaxMemory
	if limit == 0 || o.server.UsedMemory <= limit/10*9 {
		return "", ""
	}
	remedy := "Raise its maxmemory"
	if o.managed {
		remedy = "Raise managed.memory"
	}
	return v1alpha1.ReasonMemoryNearlyFull, fmt.Sprintf("More than 90 %% of the %d bytes that the server may use are in use. When they are full, "+
		"no lock is granted. %s, or find out who keeps so many keys.", limit, remedy)
}

func recordsStopped(o observation) (reason, message string) {
	if !o.records.stopped() {
		return "", ""
	}
	remedy := "Raise its maxmemory"
	if o.managed {
		remedy = "Raise managed.memory"
	}
	return v1alpha1.ReasonRecordsStopped, fmt.Sprintf("More than %d %% of the %d bytes that the server may use are in use, so no idempotency records are taken before it is "+
		"less than %d %%. Locks are granted. %s, or lower limits.recordMemoryPercent.", recordsStopAbove, o.server.MaxMemory, recordsResumeUpTo, remedy)
}

func recordSharesTooLarge(o observation) (reason, message string) {
	if !o.records.cut() {
		return "", ""
	}
	return v1alpha1.ReasonRecordSharesTooLarge, fmt.Sprintf("LockNamespaces have shares of %d bytes for idempotency records, and limits.recordMemoryPercent (%d) of the "+
		"server's memory are %d, so %d of every 1000 bytes of a share can be used. Raise the percentage or the memory, or ask for smaller shares.",
		o.records.granted, o.records.percent, o.records.capacity, o.records.part)
}

// durable reports whether the server keeps every write that it acknowledged. An append-only file that was switched on in this run does not
// have everything before it was written as a whole.
func durable(server redisadmin.Server, status v1alpha1.RedisInstanceStatus) bool {
	before := server.RunID != status.RunID || slices.Contains(status.Capabilities, v1alpha1.CapabilityDurable)
	return server.Durable() && (before || !server.AOFRewriting)
}

// selfArms reports whether the server may grant locks after a restart without the operator.
func selfArms(server redisadmin.Server, status v1alpha1.RedisInstanceStatus) bool {
	return server.SelfArm() && durable(server, status)
}
