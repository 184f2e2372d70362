// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
	lockclock "github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// Name of the controller, its logger, and its label in metrics.
const Name = "redisinstance"

// How long until a server is looked at again when nothing happens in the cluster. A server of somebody else forgets its users when it
// restarts, so it is looked at more often.
const (
	periodManaged     = 30 * time.Second
	periodExternal    = 10 * time.Second
	periodUnavailable = 5 * time.Second
)

// Config is what a Controller needs.
type Config struct {
	// Client writes.
	Client client.Client
	// Reader sees everything that RBAC allows, uncached.
	Reader client.Reader
	// Connector opens connections to servers.
	Connector *redisadmin.Connector
	// Recorder takes the events.
	Recorder events.EventRecorder
	// Clock gives conditions and epochs their times.
	Clock clock.PassiveClock
	// LockClock measures quarantines.
	LockClock lockclock.Clock
	// Operator are the operator's own pods, which network policies admit. Defaults to none, as of an operator that runs outside of the cluster.
	Operator Pods
}

// Controller reconciles RedisInstances.
type Controller struct {
	servers
	recorder    events.EventRecorder
	clock       clock.PassiveClock
	quarantines *quarantines
	operator    Pods
}

// New returns a Controller.
func New(config Config) *Controller {
	return &Controller{
		servers:  servers{client: config.Client, reader: config.Reader, connector: config.Connector},
		recorder: config.Recorder, clock: config.Clock, quarantines: newQuarantines(config.LockClock), operator: config.Operator,
	}
}

// +kubebuilder:rbac:groups=lockstead.dev,resources=redisinstances,verbs=get;list;watch
// +kubebuilder:rbac:groups=lockstead.dev,resources=redisinstances/status,verbs=patch
// +kubebuilder:rbac:groups=lockstead.dev,resources=redisinstances/finalizers,verbs=update
// +kubebuilder:rbac:groups=lockstead.dev,resources=locknamespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services;configmaps,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;update
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Register adds the controller to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	err := builder.ControllerManagedBy(mgr).Named(Name).
		For(&v1alpha1.RedisInstance{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.StatefulSet{}).
		Watches(&v1alpha1.LockNamespace{}, handler.EnqueueRequestsFromMapFunc(boundInstance)).
		Complete(c)
	if err != nil {
		return fmt.Errorf("register controller %s: %w", Name, err)
	}
	return nil
}

// boundInstance is the RedisInstance that a LockNamespace is bound to.
func boundInstance(_ context.Context, object client.Object) []reconcile.Request {
	namespace, ok := object.(*v1alpha1.LockNamespace)
	if !ok || namespace.Status.InstanceRef == nil {
		return nil
	}
	ref := namespace.Status.InstanceRef
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}}
}

// Reconcile brings one server to the desired state, and the status to what was found.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	// A status from a cache that lags behind would tell of a loss that was answered already.
	instance := &v1alpha1.RedisInstance{}
	if err := c.reader.Get(ctx, req.NamespacedName, instance); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !instance.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	err := c.recordLongestTTL(ctx, instance)
	before := instance.DeepCopy()
	var observed observation
	if err == nil {
		err = c.administer(ctx, instance, &observed)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil && !errors.As(err, &observed.unavailable) {
		return reconcile.Result{}, err // The API server's.
	}
	c.report(ctx, instance, before, observed)
	if !equality.Semantic.DeepEqual(before.Status, instance.Status) {
		if err := c.client.Status().Patch(ctx, instance, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			if apierrors.IsConflict(err) {
				return reconcile.Result{RequeueAfter: time.Second}, nil
			}
			return reconcile.Result{}, fmt.Errorf("patch the status: %w", err)
		}
		c.announce(before, instance, observed)
	}
	return reconcile.Result{RequeueAfter: c.next(instance, observed)}, nil
}

// next is when to look again if nothing happens.
func (c *Controller) next(instance *v1alpha1.RedisInstance, o observation) time.Duration {
	period := periodManaged
	if instance.Spec.Mode == v1alpha1.ModeExternal {
		period = periodExternal
	}
	switch {
	case o.unavailable != nil:
		return periodUnavailable
	case !o.plan.grant:
		return max(time.Second, min(period, o.remaining))
	}
	return period
}

// administer does everything that needs the server, as far as it gets.
func (c *Controller) administer(ctx context.Context, instance *v1alpha1.RedisInstance, observed *observation) error {
	tenants, err := c.listTenants(ctx, instance)
	if err != nil {
		return err
	}
	instance.Status.LockNamespaces = int32(len(tenants.bound)) //nolint:gosec // There are not that many.
	observed.users, observed.unprotected = names(tenants.bound), instance.Spec.DeletionProtection == v1alpha1.DeletionDisabled
	at := endpoint(instance)
	instance.Status.Endpoint = &at
	in, err := c.login(ctx, instance)
	if err != nil {
		return err
	}
	if instance.Spec.Mode == v1alpha1.ModeManaged {
		if err := c.runServer(ctx, instance, in, tenants); err != nil {
			return err
		}
	}
	return c.program(ctx, instance, in, tenants, observed)
}

// listTenants tells of the LockNamespaces of instance. Whoever removes users looks for users first and lists after that: a user is made for a
// LockNamespace that the same cache had, so none that is being bound in the meantime is taken for one that is gone.
func (c *Controller) listTenants(ctx context.Context, instance *v1alpha1.RedisInstance) (tenants, error) {
	all := &v1alpha1.LockNamespaceList{}
	if err := c.client.List(ctx, all); err != nil {
		return tenants{}, fmt.Errorf("list LockNamespaces: %w", err)
	}
	return tenantsOf(instance, all.Items), nil
}

// recordLongestTTL writes a new longest TTL into the status before anything grants it, so that no quarantine is too short.
func (c *Controller) recordLongestTTL(ctx context.Context, instance *v1alpha1.RedisInstance) error {
	limit := instance.Spec.Limits.MaxTTL.Duration
	if longest := instance.Status.LongestTTL; longest != nil && longest.Duration >= limit {
		return nil
	}
	before := instance.DeepCopy()
	instance.Status.LongestTTL = &metav1.Duration{Duration: limit}
	if err := c.client.Status().Patch(ctx, instance, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("record the longest TTL: %w", err)
	}
	return nil
}

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
	observed.server = &server
	if err := unsupported(server); err != nil {
		return err
	}
	f, epochs, err := examine(ctx, admin, server, tenants)
	if err != nil {
		return serverProblem(err)
	}
	limit := instance.Spec.Limits.MaxTTL.Duration
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
		if err := c.load(ctx, admin, server, p); err != nil {
			return err
		}
	}
	if err := carryOut(ctx, admin, p, records(p, mayGrant(server), limit, tenants, epochs), limit, mayGrant(server)); err != nil {
		return serverProblem(err)
	}
	if !server.Functions {
		// After the records: the server grants as soon as it has it.
		if err := c.load(ctx, admin, server, p); err != nil {
			return err
		}
	}
	// From here on the server and the status agree, also if something fails below.
	observed.plan = p
	remember(instance, server, p)
	if p.grant {
		c.quarantines.forget(instance.UID)
	}
	if !Isolated(instance) {
		// No user is administered, but applications need the one that they share.
		_, err := c.readCredentials(ctx, instance.Namespace, instance.Spec.External.TenantCredentials.SecretName)
		return err
	}
	names, err := admin.TenantUsers(ctx)
	if err != nil {
		return serverProblem(err)
	}
	var boot []redisproto.User
	if instance.Spec.Mode == v1alpha1.ModeManaged {
		if boot, err = c.readBootUsers(ctx, instance); err != nil {
			return err
		}
	}
	if tenants, err = c.listTenants(ctx, instance); err != nil {
		return err
	}
	deleted, err := sweep(ctx, admin, instance, names, tenants, boot)
	if deleted > 0 {
		log.FromContext(ctx).Info("deleted users of LockNamespaces that are gone", "users", deleted)
	}
	return serverProblem(err)
}

// load loads the code that applications run.
func (c *Controller) load(ctx context.Context, admin *redisadmin.Client, server redisadmin.Server, p plan) error {
	loaded, err := loadCode(ctx, admin, server, p.grant)
	if loaded {
		log.FromContext(ctx).Info("loaded the lock protocol", "engine", server.Engine, "version", server.Version, "access", access(server))
	}
	return serverProblem(err)
}

func memoryOf(instance *v1alpha1.RedisInstance) memory {
	m := memory{epoch: uint64(max(instance.Status.Epoch, 0)), runID: instance.Status.RunID}
	if until := instance.Status.QuarantineUntil; until != nil {
		m.quarantineUntil = until.Time
	}
	if longest := instance.Status.LongestTTL; longest != nil {
		m.longestTTL = longest.Duration
	}
	return m
}

func remember(instance *v1alpha1.RedisInstance, server redisadmin.Server, p plan) {
	instance.Status.Server = &v1alpha1.ServerInfo{Engine: server.Engine, Version: server.Version}
	instance.Status.Capabilities = capabilities(instance, server)
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
		{server.Durable(), v1alpha1.CapabilityDurable},
	} {
		if c.has {
			found = append(found, c.capability)
		}
	}
	return found
}

// report writes the conditions into the status.
func (c *Controller) report(ctx context.Context, instance, before *v1alpha1.RedisInstance, observed observation) {
	if observed.unavailable != nil && observed.plan.epoch == 0 {
		// Nothing is known of the epoch, so what was remembered stays.
		instance.Status.Epoch, instance.Status.RunID, instance.Status.QuarantineUntil = before.Status.Epoch, before.Status.RunID, before.Status.QuarantineUntil
	}
	now := metav1.NewTime(c.clock.Now())
	for _, condition := range conditions(observed) {
		condition.ObservedGeneration = instance.Generation
		condition.LastTransitionTime = now
		if meta.SetStatusCondition(&instance.Status.Conditions, condition) {
			log.FromContext(ctx).V(1).Info("condition changed", "type", condition.Type, "status", condition.Status, "reason", condition.Reason)
		}
	}
	instance.Status.ObservedGeneration = instance.Generation
}

// announce writes events for what changed.
func (c *Controller) announce(before, instance *v1alpha1.RedisInstance, observed observation) {
	if observed.plan.lost != "" {
		c.recorder.Eventf(instance, nil, corev1.EventTypeWarning, "DataMayBeLost", "Quarantine",
			"%s. Epoch raised to %d; nothing is granted before %s.", upperFirst(observed.plan.lost), instance.Status.Epoch, observed.plan.quarantineUntil.UTC().Format(time.RFC3339))
	}
	for _, kind := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionLockSafe} {
		old, now := meta.FindStatusCondition(before.Status.Conditions, kind), meta.FindStatusCondition(instance.Status.Conditions, kind)
		if now == nil || (old != nil && old.Status == now.Status && old.Reason == now.Reason) {
			continue
		}
		eventType := corev1.EventTypeNormal
		if now.Status == metav1.ConditionFalse {
			eventType = corev1.EventTypeWarning
		}
		c.recorder.Eventf(instance, nil, eventType, now.Reason, "Reconcile", "%s", now.Message)
	}
}

func upperFirst(text string) string { return string(text[0]-'a'+'A') + text[1:] }
