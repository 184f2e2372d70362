// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// tenants is what the cluster knows of the LockNamespaces of one RedisInstance.
type tenants struct {
	// bound are the LockNamespaces that are bound to the RedisInstance.
	bound []v1alpha1.LockNamespace
	// holders are those of them that have keys of their own, one for a prefix. The others share theirs.
	holders []v1alpha1.LockNamespace
	// users are those that may exist on the server: of bound LockNamespaces, and of ones that may be in the middle of being bound.
	users sets.Set[string]
}

// tenantsOf picks the LockNamespaces of instance out of all.
func tenantsOf(instance *v1alpha1.RedisInstance, all []v1alpha1.LockNamespace) tenants {
	found := tenants{users: sets.New[string]()}
	for _, namespace := range all {
		bound := BoundTo(&namespace, instance.UID)
		if bound {
			found.bound = append(found.bound, namespace)
		}
		if bound || namespace.Status.Backend == "" {
			found.users.Insert(redisadmin.TenantUser(string(namespace.UID)))
		}
	}
	found.holders = holders(found.bound)
	return found
}

// written reports whether the binding of a LockNamespace was written, before which it was programmed.
func written(namespace v1alpha1.LockNamespace) bool { return namespace.Status.Binding != nil }

// examine looks what the server has of the records of instance and its tenants. The library is not loaded yet, since that disarms.
func examine(ctx context.Context, client *redisadmin.Client, server redisadmin.Server, t tenants) (found, map[string]redisproto.Epoch, error) {
	whole := redisadmin.InstancePrefix(keyRoot)
	prefixes := []string{whole}
	for _, namespace := range t.holders {
		prefixes = append(prefixes, PrefixOf(&namespace))
	}
	epochs, err := client.ReadEpochs(ctx, prefixes...)
	if err != nil {
		return found{}, nil, err //nolint:wrapcheck // redisadmin says what was done.
	}
	var armed map[string]uint64
	if server.Functions {
		if armed, err = client.ArmedEpochs(ctx, keyRoot, whole); err != nil {
			return found{}, nil, err //nolint:wrapcheck // As above.
		}
	}
	f := found{epoch: epochs[whole].Number, armed: armed[whole], runID: server.RunID, selfArm: server.SelfArm()}
	for _, epoch := range epochs {
		f.highest = max(f.highest, epoch.Number)
	}
	for _, namespace := range t.holders {
		if !written(namespace) {
			continue
		}
		f.bound = true
		if _, ok := epochs[PrefixOf(&namespace)]; !ok {
			f.incomplete = true
		}
	}
	return f, epochs, nil
}

// records are the epoch records that the plan asks for. A record that is to be made for the first time is left to the one who makes the user.
// While nothing is granted, records that exist get the new epoch and do not arm themselves, which takes effect at once.
func records(p plan, selfArm bool, limit time.Duration, t tenants, epochs map[string]redisproto.Epoch) map[string]redisproto.Epoch {
	wanted := map[string]redisproto.Epoch{}
	for _, namespace := range t.holders {
		have, exists := epochs[PrefixOf(&namespace)]
		if !exists && (!p.grant || !written(namespace)) {
			continue
		}
		wanted[PrefixOf(&namespace)] = redisproto.Epoch{
			Number: max(have.Number, p.epoch), MaxTTL: min(namespace.Spec.TTL.Max.Duration, limit), SelfArm: selfArm && p.grant,
		}
	}
	return wanted
}

// loadCode loads what applications run. The code that grants locks comes last, since on a server without functions its presence is what lets the
// server grant.
func loadCode(ctx context.Context, client *redisadmin.Client, server redisadmin.Server, grant bool) (loaded bool, err error) {
	if server.Functions {
		return client.EnsureLibrary(ctx) //nolint:wrapcheck // redisadmin says what was done.
	}
	scripts := redisproto.HolderScripts()
	if grant {
		scripts = append(scripts, redisproto.GrantScripts()...)
	}
	return client.EnsureScripts(ctx, scripts) //nolint:wrapcheck // As above.
}

// mayGrant is what the last part of an epoch record is to say while the server may grant.
func mayGrant(server redisadmin.Server) bool { return server.SelfArm() || !server.Functions }

// access is how applications run the lock protocol on a server.
func access(server redisadmin.Server) binding.Access {
	if server.Functions {
		return binding.AccessFunctions
	}
	return binding.AccessScripts
}

// carryOut writes what the plan asks for. The server's own record comes first, so that a tenant's never has a newer epoch than it.
func carryOut(ctx context.Context, client *redisadmin.Client, p plan, wanted map[string]redisproto.Epoch, limit time.Duration, selfArm bool) error {
	if p.grant {
		own := map[string]redisproto.Epoch{redisadmin.InstancePrefix(keyRoot): {Number: p.epoch, MaxTTL: limit, SelfArm: selfArm}}
		if err := write(ctx, client, own, true); err != nil {
			return err
		}
	}
	return write(ctx, client, wanted, p.grant)
}

func write(ctx context.Context, client *redisadmin.Client, records map[string]redisproto.Epoch, arm bool) error {
	for prefix, record := range records {
		if _, err := client.WriteEpoch(ctx, prefix, record); err != nil {
			return err //nolint:wrapcheck // redisadmin says what was done.
		}
	}
	if !arm {
		return nil
	}
	return armUnlessSelf(ctx, client, records)
}

// sweep deletes those of the users with these names whose LockNamespaces are gone, and makes those again that the file of a managed server has
// and the server lost.
func sweep(ctx context.Context, client *redisadmin.Client, instance *v1alpha1.RedisInstance, names []string, t tenants, boot []redisproto.User) (deleted int, err error) {
	mark := redisadmin.UserMark(keyRoot, string(instance.UID))
	for _, name := range names {
		if t.users.Has(name) {
			continue
		}
		gone, err := client.DeleteUser(ctx, name, mark)
		if err != nil {
			return deleted, err //nolint:wrapcheck // As above.
		}
		if gone {
			deleted++
		}
	}
	present := sets.New(names...)
	for _, user := range boot {
		if !t.users.Has(user.Name) || present.Has(user.Name) {
			continue
		}
		if _, err := client.EnsureUser(ctx, user); err != nil {
			return deleted, err //nolint:wrapcheck // As above.
		}
	}
	return deleted, nil
}
