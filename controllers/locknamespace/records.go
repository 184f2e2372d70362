// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/pkg/binding"
)

// recordGrant is what a LockNamespace gets for idempotency records.
type recordGrant struct {
	// share is what the server is to enforce. Nil is none.
	share *v1alpha1.IdempotencyRecords
	// refused says why it is not what was asked for; zero when it is.
	refused verdict
}

// decideRecords compares what a LockNamespace asks for with what its RedisInstance has. others is the sum of the shares of the others, in bytes. What was granted
// before stays when there is no room for more.
func decideRecords(lns *v1alpha1.LockNamespace, instance *v1alpha1.RedisInstance, others int64) recordGrant {
	asked, present := lns.Spec.IdempotencyRecords, lns.Status.IdempotencyRecords
	if asked == nil {
		return recordGrant{}
	}
	name := instance.Namespace + "/" + instance.Name
	memory, has := instance.Status.RecordMemory, slices.Contains[[]v1alpha1.Capability]
	if !has(instance.Status.Capabilities, v1alpha1.CapabilityACL) || !has(instance.Status.Capabilities, v1alpha1.CapabilityFunctions) {
		return recordGrant{refused: verdict{v1alpha1.ReasonRecordsUnsupported, fmt.Sprintf(
			"The server of RedisInstance %s has no functions, or its users cannot be administered, so no share of its memory could be enforced. "+
				"Leave out spec.idempotencyRecords and keep the records elsewhere.", name)}}
	}
	if present != nil && share(asked) <= share(present) {
		return recordGrant{share: asked}
	}
	percent := instance.Spec.Limits.RecordMemoryPercent
	switch {
	case percent != nil && *percent == 0:
		return recordGrant{present, verdict{v1alpha1.ReasonRecordsForbidden, fmt.Sprintf(
			"RedisInstance %s keeps no idempotency records: its limits.recordMemoryPercent is 0. Ask its owner to raise it, or keep the records elsewhere.", name)}}
	case memory == nil || memory.Capacity == nil:
		return recordGrant{present, verdict{v1alpha1.ReasonRecordMemoryUnknown, fmt.Sprintf(
			"The server of RedisInstance %s has no maxmemory, so nothing can be set aside for locks. Ask its owner to set it.", name)}}
	case others+share(asked) > memory.Capacity.Value():
		kept := ""
		if present != nil {
			kept = fmt.Sprintf(" Those that were granted before, %s, stay.", present.Memory)
		}
		return recordGrant{present, verdict{v1alpha1.ReasonRecordMemoryExhausted, fmt.Sprintf(
			"RedisInstance %s has %s for idempotency records, of which too much is granted to others for another %s.%s Lower spec.idempotencyRecords.memory, or ask its owner "+
				"to raise its memory or limits.recordMemoryPercent. It is tried again.", name, memory.Capacity, asked.Memory, kept)}}
	}
	return recordGrant{share: asked}
}

func share(records *v1alpha1.IdempotencyRecords) int64 {
	return redisinstance.RecordLimits(records).Share
}

// reserveRecords decides about the records, and records a share that is new or larger before anything is made of it. Such decisions are made one after the other, since each
// depends on the shares of the others.
func (c *Controller) reserveRecords(ctx context.Context, lns *v1alpha1.LockNamespace, instance *v1alpha1.RedisInstance) (recordGrant, error) {
	if grant := decideRecords(lns, instance, 0); grant.share == nil || share(grant.share) <= granted(lns) {
		return grant, nil
	}
	c.binding.Lock()
	defer c.binding.Unlock()
	// From the API server, which shows what others were granted a moment ago.
	var list v1alpha1.LockNamespaceList
	if err := c.reader.List(ctx, &list); err != nil {
		return recordGrant{}, fmt.Errorf("list LockNamespaces: %w", err)
	}
	var others int64
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID != lns.UID && redisinstance.BoundTo(other, instance.UID) && redisinstance.KeepsRecords(other) {
			others += share(other.Status.IdempotencyRecords)
		}
	}
	grant := decideRecords(lns, instance, others)
	if grant.refused.reason != "" {
		return grant, nil
	}
	stored := lns.DeepCopy()
	lns.Status.IdempotencyRecords = grant.share.DeepCopy()
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := c.client.Status().Patch(ctx, lns, patch); err != nil {
		return recordGrant{}, fmt.Errorf("record the share for idempotency records: %w", err)
	}
	return grant, nil
}

func granted(lns *v1alpha1.LockNamespace) int64 {
	if lns.Status.IdempotencyRecords == nil {
		return 0
	}
	return share(lns.Status.IdempotencyRecords)
}

// bindingRecords is what the Secret says of a share.
func bindingRecords(records *v1alpha1.IdempotencyRecords) *binding.Records {
	if records == nil {
		return nil
	}
	limits := redisinstance.RecordLimits(records)
	return &binding.Records{Share: limits.Share, MaxResponse: limits.MaxResponse}
}

// recordsVerdict is what the condition RecordsGranted says, and whether it is True. No reason is that there is no condition.
func recordsVerdict(lns *v1alpha1.LockNamespace, o outcome) (verdict, bool) {
	switch {
	case lns.Spec.IdempotencyRecords == nil:
		return verdict{}, false
	case o.accepted.reason != "":
		return verdict{v1alpha1.ReasonNotAccepted, "See condition Accepted."}, false
	case lns.Status.Backend == v1alpha1.BackendLease:
		return verdict{
			v1alpha1.ReasonNeedsRedis, "spec.idempotencyRecords needs Redis, and the locks are kept as Leases. Leave it out and keep the records elsewhere, or create the " +
				"LockNamespace anew on a RedisInstance.",
		}, false
	case o.programmed.missing.reason != "":
		return o.programmed.missing, false
	case o.programmed.records.refused.reason != "":
		return o.programmed.records.refused, false
	}
	return verdict{v1alpha1.ReasonGranted, fmt.Sprintf("The server takes records up to %s, with responses up to %s.",
		lns.Spec.IdempotencyRecords.Memory, lns.Spec.IdempotencyRecords.MaxResponseSize)}, true
}
