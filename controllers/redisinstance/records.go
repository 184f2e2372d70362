// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore/recordproto"
)

// KeepsRecords reports whether a LockNamespace has a share of the memory for idempotency records. One that shares the keys of another has none.
func KeepsRecords(namespace *v1alpha1.LockNamespace) bool {
	return namespace.Status.IdempotencyRecords != nil && namespace.Spec.ShareFrom == nil
}

// RecordLimits are what the records that a LockNamespace asks for may take.
func RecordLimits(records *v1alpha1.IdempotencyRecords) recordproto.Limits {
	return recordproto.Limits{Share: bytesOf(records.Memory), MaxResponse: bytesOf(records.MaxResponseSize)}
}

func bytesOf(q *resource.Quantity) int64 {
	if q == nil {
		return 0
	}
	return q.Value()
}

// grantRecords sets the share of a tenant aside. Its user gets the right after that.
func grantRecords(ctx context.Context, server *redisadmin.Client, tenant Tenant) error {
	if tenant.Records == nil {
		return nil
	}
	if err := server.EnsureRecordLibrary(ctx); err != nil {
		return err //nolint:wrapcheck // redisadmin says what was done.
	}
	return server.GrantRecords(ctx, tenant.Prefix, tenant.Username, *tenant.Records) //nolint:wrapcheck // As above.
}

// The parts of the memory, in percent, above which no records are taken, and below which they are again.
const (
	recordsStopAbove  = 80
	recordsResumeUpTo = 75
)

// recordMemory is what was found of the idempotency records of a server.
type recordMemory struct {
	// capacity is what all may take, and granted the sum of the shares, in bytes. Without a limit of the memory known is false.
	capacity, granted int64
	known             bool
	// percent of the memory is the capacity.
	percent int32
	// used is what the records are charged with.
	used int64
	// part is the thousandths of every share that may be used.
	part int64
}

// any reports whether there is a share.
func (r recordMemory) any() bool { return r.granted > 0 }

// stopped: no records are taken, so that there is room for locks.
func (r recordMemory) stopped() bool { return r.any() && r.part == 0 && r.granted <= r.capacity }

// cut: the shares are more than there is for them.
func (r recordMemory) cut() bool { return r.known && r.granted > r.capacity }

// budget is what the records of a server may take, and what was granted to the LockNamespaces that are bound to it.
func budget(instance *v1alpha1.RedisInstance, maxMemory uint64, bound []v1alpha1.LockNamespace) recordMemory {
	r := recordMemory{known: maxMemory > 0, percent: recordPercent(instance), part: recordproto.Whole}
	r.capacity = int64(maxMemory/100) * int64(r.percent) //nolint:gosec // No server has that much.
	for i := range bound {
		if namespace := &bound[i]; KeepsRecords(namespace) {
			r.granted += RecordLimits(namespace.Status.IdempotencyRecords).Share
		}
	}
	return r
}

const defaultRecordPercent = 50

func recordPercent(instance *v1alpha1.RedisInstance) int32 {
	if percent := instance.Spec.Limits.RecordMemoryPercent; percent != nil {
		return *percent
	}
	return defaultRecordPercent
}

// partOf is how much of every share may be used: nothing while the memory is nearly full, which before tells if it was, and else as much as the capacity has for all.
func partOf(r recordMemory, server redisadmin.Server, before int64) int64 {
	limit := recordsStopAbove
	if before == 0 && !r.cut() {
		limit = recordsResumeUpTo
	}
	switch {
	case r.known && server.UsedMemory > server.MaxMemory/100*uint64(limit): //nolint:gosec // Of the two above.
		return 0
	case r.cut():
		return r.capacity * recordproto.Whole / r.granted
	}
	return recordproto.Whole
}

// programRecords does what tendRecords does. An administrator's user of an external server may lack the rights for it: locks do without, and a LockNamespace that asks for
// records tells which right is missing.
func (c *Controller) programRecords(ctx context.Context, instance *v1alpha1.RedisInstance, admin *redisadmin.Client, tenants tenants, observed *observation) error {
	err := c.tendRecords(ctx, instance, admin, tenants, observed)
	if errors.Is(err, errRecordsDenied) {
		log.FromContext(ctx).V(1).Info("idempotency records are not looked at", "reason", err.Error())
		return nil
	}
	return err
}

// errRecordsDenied: the administrator's user lacks a right that only records need.
var errRecordsDenied = errors.New("records need a right")

func recordProblem(err error) error {
	if errors.Is(err, redisadmin.ErrDenied) {
		return fmt.Errorf("%w: %w", errRecordsDenied, err)
	}
	return serverProblem(err)
}

// tendRecords removes the records of those who are gone, sweeps those of the others, and decides how much of the shares may be used.
func (c *Controller) tendRecords(ctx context.Context, instance *v1alpha1.RedisInstance, admin *redisadmin.Client, tenants tenants, observed *observation) error {
	server := *observed.server
	observed.records = budget(instance, server.MaxMemory, tenants.bound)
	defer func() { c.metrics.set(instance, observed.records) }()
	remembered := &v1alpha1.RecordMemory{Granted: resource.NewQuantity(observed.records.granted, resource.BinarySI)}
	if observed.records.known {
		remembered.Capacity = resource.NewQuantity(observed.records.capacity, resource.BinarySI)
	}
	instance.Status.RecordMemory = remembered
	if !server.Functions || !Isolated(instance) {
		return nil
	}
	holders, err := admin.RecordHolders(ctx, keyRoot)
	if err != nil {
		return recordProblem(err)
	}
	if holders, err = c.withdrawStray(ctx, instance, admin, holders); err != nil {
		return err
	}
	keepers := keepersOf(tenants)
	if len(holders) == 0 && len(keepers) == 0 {
		return nil
	}
	if err := admin.EnsureRecordLibrary(ctx); err != nil {
		return recordProblem(err)
	}
	use, err := admin.SweepRecords(ctx, slices.Sorted(maps.Keys(holders))...)
	if err != nil {
		return recordProblem(err)
	}
	for prefix, namespace := range keepers {
		// What the one who programs the user wrote and somebody has deleted. It is not written over: this view may be older.
		holder, ours := holders[prefix], redisadmin.TenantUser(string(namespace.UID))
		if !written(*namespace) || holder == ours && use[prefix].Limited || holder != "" && holder != ours {
			continue
		}
		if err := admin.GrantRecords(ctx, prefix, ours, RecordLimits(namespace.Status.IdempotencyRecords)); err != nil {
			return recordProblem(err)
		}
	}
	for _, used := range use {
		observed.records.used += used.Bytes
	}
	before, err := admin.RecordPart(ctx, keyRoot)
	if err != nil {
		return recordProblem(err)
	}
	observed.records.part = partOf(observed.records, server, before)
	if observed.records.part != before {
		return recordProblem(admin.SetRecordPart(ctx, keyRoot, observed.records.part))
	}
	return nil
}

// keepersOf are the LockNamespaces that have a share, by their prefixes.
func keepersOf(t tenants) map[string]*v1alpha1.LockNamespace {
	keepers := map[string]*v1alpha1.LockNamespace{}
	for i := range t.holders {
		if namespace := &t.holders[i]; KeepsRecords(namespace) && !namespace.AccessRevoked() {
			keepers[PrefixOf(namespace)] = namespace
		}
	}
	return keepers
}

// withdrawStray removes the records of LockNamespaces that are gone or have lost their access, and returns the holders that are left. Those of one that no longer asks for
// records are removed by the one who takes the right from its user.
func (c *Controller) withdrawStray(
	ctx context.Context, instance *v1alpha1.RedisInstance, admin *redisadmin.Client, holders map[string]string,
) (map[string]string, error) {
	if len(holders) == 0 {
		return holders, nil
	}
	// After the holders were read, and from the API server, so that none that was just granted is taken for a stray one.
	all := &v1alpha1.LockNamespaceList{}
	if err := c.reader.List(ctx, all); err != nil {
		return nil, fmt.Errorf("list LockNamespaces: %w", err)
	}
	known := map[string]bool{}
	for i := range all.Items {
		if namespace := &all.Items[i]; !namespace.AccessRevoked() {
			known[redisadmin.TenantUser(string(namespace.UID))] = true
		}
	}
	left := map[string]string{}
	for prefix, holder := range holders {
		if known[holder] {
			left[prefix] = holder
			continue
		}
		// First the right, which nobody can have back under this name.
		user, exists, err := admin.GetUser(ctx, holder)
		if err != nil {
			return nil, recordProblem(err)
		}
		if exists && !user.HasMark(redisadmin.UserMark(keyRoot, string(instance.UID))) {
			left[prefix] = holder // Of another RedisInstance of the same server.
			continue
		}
		if _, err := admin.DeleteUser(ctx, holder, redisadmin.UserMark(keyRoot, string(instance.UID))); err != nil {
			return nil, recordProblem(err)
		}
		if err := admin.WithdrawRecords(ctx, keyRoot, prefix, holder); err != nil {
			return nil, recordProblem(err)
		}
	}
	return left, nil
}
