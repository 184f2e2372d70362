// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// program brings the server itself to the desired state.
func (c *Controller) program(ctx context.Context, instance *v1alpha1.RedisInstance, in login, tenants tenants, observed *observation) error {
	admin, err := c.connect(ctx, in)
	if err != nil {
		return err
	}
	defer admin.Close()
	server, err := admin.Probe(ctx)
	if err != nil {
		return serverProblem(err)
	}
	observed.server, observed.selfArm, observed.shared = &server, selfArms(server, instance.Status), !Isolated(instance)
	if err := unsupported(server); err != nil {
		return err
	}
	if err := c.claim(ctx, instance, admin); err != nil {
		return err
	}
	if observed.settled {
		if observed.changed, err = putRight(ctx, admin, server, desiredConfigMap(instance).Data[configFile]); err != nil {
			return serverProblem(err)
		}
	}
	if err := c.programEpochs(ctx, instance, admin, tenants, observed); err != nil {
		return serverProblem(err)
	}
	if err := c.programUsers(ctx, instance, admin, observed); err != nil {
		return err
	}
	return c.programRecords(ctx, instance, admin, tenants, observed)
}

// claim makes an external server belong to this cluster, unless it belongs to another one. Nothing is written to the server before.
func (c *Controller) claim(ctx context.Context, instance *v1alpha1.RedisInstance, admin *redisadmin.Client) error {
	if instance.Spec.Mode != v1alpha1.ModeExternal {
		return nil
	}
	system := &metav1.PartialObjectMetadata{}
	system.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return fmt.Errorf("get namespace %s, whose UID identifies the cluster: %w", metav1.NamespaceSystem, err)
	}
	owner, err := admin.Claim(ctx, keyRoot, string(system.UID))
	if err != nil {
		return serverProblem(err)
	}
	if owner != string(system.UID) {
		key := redisadmin.OwnerKey(keyRoot)
		return &unavailableError{v1alpha1.ReasonOwnedByAnotherOperator, fmt.Sprintf("The operator of another cluster administers the server: its key %s is %q, "+
			"and the UID of this cluster's namespace %s is %q. Nothing is written to it. Use another server, or, if that cluster is gone, delete the key: DEL %[1]s",
			key, owner, metav1.NamespaceSystem, string(system.UID))}
	}
	return nil
}

// programEpochs loads the library, and writes and arms what the state of the server asks for.
func (c *Controller) programEpochs(ctx context.Context, instance *v1alpha1.RedisInstance, admin *redisadmin.Client, tenants tenants, observed *observation) error {
	server := *observed.server
	f, epochs, err := examine(ctx, admin, server, observed.selfArm, tenants)
	if err != nil {
		return err
	}
	m := memoryOf(instance)
	if !m.quarantineUntil.IsZero() {
		m.remaining = c.quarantines.remaining(instance.UID, m.epoch, m.quarantineLength())
	}
	p := decide(m, f, c.clock.Now())
	if !p.grant {
		observed.remaining = c.quarantines.remaining(instance.UID, p.epoch, m.quarantineLength())
	}
	if server.Functions {
		// Before the records: loading it disarms.
		if err := load(ctx, admin, server, p); err != nil {
			return err
		}
	}
	limit, grants := instance.Spec.Limits.MaxTTL.Duration, mayGrant(server, observed.selfArm)
	if err := carryOut(ctx, admin, p, records(p, grants, limit, tenants, epochs), limit, grants); err != nil {
		return err
	}
	if !server.Functions {
		// After the records: the server grants as soon as it has it.
		if err := load(ctx, admin, server, p); err != nil {
			return err
		}
	}
	// From here on the server and the status agree, also if something fails later.
	observed.plan = p
	remember(instance, *observed)
	if p.grant {
		c.quarantines.forget(instance.UID)
	}
	return nil
}

// load loads the code that applications run.
func load(ctx context.Context, admin *redisadmin.Client, server redisadmin.Server, p plan) error {
	loaded, err := loadCode(ctx, admin, server, p.grant)
	if loaded {
		log.FromContext(ctx).Info("loaded the lock protocol", "engine", server.Engine, "version", server.Version, "access", access(server))
	}
	return err
}

// programUsers compares the users of the server with the LockNamespaces.
func (c *Controller) programUsers(ctx context.Context, instance *v1alpha1.RedisInstance, admin *redisadmin.Client, observed *observation) error {
	if !Isolated(instance) {
		// No user is administered, but applications need the one that they share.
		_, err := c.readCredentials(ctx, instance.Namespace, instance.Spec.External.TenantCredentials.SecretName)
		return err
	}
	names, err := admin.TenantUsers(ctx)
	if err != nil {
		return serverProblem(err)
	}
	var boot map[string]redisproto.User
	if instance.Spec.Mode == v1alpha1.ModeManaged {
		users, err := c.readBootUsers(ctx, instance)
		if err != nil {
			return err
		}
		boot = byName(users)
	}
	// After the names were read: a user is made for objects that the same cache had, so one that is being made is not taken for a stray one.
	all := &v1alpha1.RedisInstanceList{}
	if err := c.client.List(ctx, all); err != nil {
		return fmt.Errorf("list RedisInstances: %w", err)
	}
	instances := sets.New[string]()
	for _, other := range all.Items {
		instances.Insert(string(other.UID))
	}
	tenants, err := c.listTenants(ctx, instance)
	if err != nil {
		return err
	}
	count, err := c.inspect(ctx, admin, inspection{
		instance: instance, names: names, tenants: tenants, instances: instances, boot: boot,
		access: access(*observed.server), period: period(instance),
	})
	if err != nil {
		return serverProblem(err)
	}
	observed.acl = &count
	return nil
}

func memoryOf(instance *v1alpha1.RedisInstance) memory {
	m := memory{
		epoch: uint64(max(instance.Status.Epoch, 0)), runID: instance.Status.RunID,
		durable: slices.Contains(instance.Status.Capabilities, v1alpha1.CapabilityDurable),
	}
	if until := instance.Status.QuarantineUntil; until != nil {
		m.quarantineUntil = until.Time
	}
	if longest := instance.Status.LongestTTL; longest != nil {
		m.longestTTL = longest.Duration
	}
	return m
}

func remember(instance *v1alpha1.RedisInstance, observed observation) {
	server, p := observed.server, observed.plan
	instance.Status.Server = &v1alpha1.ServerInfo{Engine: server.Engine, Version: server.Version}
	instance.Status.Capabilities = capabilities(instance, *server)
	instance.Status.RunID = server.RunID
	instance.Status.Epoch = int64(p.epoch) //nolint:gosec // Unix seconds.
	instance.Status.QuarantineUntil = nil
	if !p.grant {
		instance.Status.QuarantineUntil = &metav1.Time{Time: p.quarantineUntil}
	}
}

// capabilities are what applications gain from a server.
func capabilities(instance *v1alpha1.RedisInstance, server redisadmin.Server) []v1alpha1.Capability {
	var found []v1alpha1.Capability
	for _, c := range []struct {
		has        bool
		capability v1alpha1.Capability
	}{
		{Isolated(instance), v1alpha1.CapabilityACL},
		{server.Functions, v1alpha1.CapabilityFunctions},
		{selfArms(server, instance.Status), v1alpha1.CapabilityDurable},
	} {
		if c.has {
			found = append(found, c.capability)
		}
	}
	return found
}

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

// prefixOf begins the keys that a LockNamespace uses: its own, or those of the owner that shares them. False when there is no such owner.
func (t tenants) prefixOf(namespace *v1alpha1.LockNamespace) (string, bool) {
	share := namespace.Spec.ShareFrom
	if share == nil {
		return PrefixOf(namespace), true
	}
	for i := range t.holders {
		if owner := &t.holders[i]; owner.Namespace == share.Namespace && owner.Name == share.Name {
			return PrefixOf(owner), true
		}
	}
	return "", false
}

// written reports whether the binding of a LockNamespace was written, before which it was programmed.
func written(namespace v1alpha1.LockNamespace) bool { return namespace.Status.Binding != nil }

// examine looks what the server has of the records of instance and its tenants. The library is not loaded yet, since that disarms.
func examine(ctx context.Context, client *redisadmin.Client, server redisadmin.Server, selfArm bool, t tenants) (found, map[string]redisproto.Epoch, error) {
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
	f := found{epoch: epochs[whole].Number, armed: armed[whole], runID: server.RunID, selfArm: keptAll(selfArm, epochs[whole])}
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

// keptAll reports whether a server that has restarted has every write that was acknowledged: it would keep them now, and the record says that it was
// so before. A replica that was promoted would, too, and lacks what its primary acknowledged last.
func keptAll(selfArm bool, record redisproto.Epoch) bool {
	return selfArm && record.SelfArm
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
func mayGrant(server redisadmin.Server, selfArm bool) bool { return selfArm || !server.Functions }

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
