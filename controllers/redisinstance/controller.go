// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
	lockclock "github.com/lockstead/lockstead/pkg/lock/clock"
)

// Name of the controller, its logger, and its label in metrics.
const Name = "redisinstance"

// How long until a server is looked at again when nothing happens in the cluster. A server of somebody else forgets its users when it
// restarts, so it is looked at more often.
const (
	periodManaged     = 20 * time.Second
	periodExternal    = 10 * time.Second
	periodUnavailable = 5 * time.Second
	// periodChanged is for a server that was just put right.
	periodChanged = 5 * time.Second
)

// lookTimeout bounds a look at a server that answers, but slowly.
const lookTimeout = 30 * time.Second

const defaultWorkers = 4

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
	// Metrics takes the gauges of idempotency records. Defaults to none.
	Metrics prometheus.Registerer
	// Workers is how many RedisInstances are reconciled at once, so that a server that does not answer delays no other. Defaults to 4.
	Workers int
}

// Controller reconciles RedisInstances.
type Controller struct {
	servers
	recorder    events.EventRecorder
	clock       clock.PassiveClock
	quarantines *quarantines
	operator    Pods
	rounds      *rounds
	seen        acquaintances
	metrics     *metrics
	workers     int
}

// New returns a Controller.
func New(config Config) *Controller {
	return &Controller{
		servers:  servers{client: config.Client, reader: config.Reader, connector: config.Connector},
		recorder: config.Recorder, clock: config.Clock, operator: config.Operator,
		quarantines: newQuarantines(config.LockClock), rounds: newRounds(), seen: acquaintances{last: map[types.NamespacedName]*v1alpha1.RedisInstance{}}, workers: cmp.Or(config.Workers, defaultWorkers),
		metrics: newMetrics(config.Metrics),
	}
}

// +kubebuilder:rbac:groups=lockstead.dev,resources=redisinstances,verbs=get;list;watch
// +kubebuilder:rbac:groups=lockstead.dev,resources=redisinstances/status,verbs=patch
// +kubebuilder:rbac:groups=lockstead.dev,resources=redisinstances/finalizers,verbs=update
// +kubebuilder:rbac:groups=lockstead.dev,resources=locknamespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services;configmaps,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Register adds the controller to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	err := builder.ControllerManagedBy(mgr).Named(Name).
		For(&v1alpha1.RedisInstance{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.StatefulSet{}).
		Watches(&v1alpha1.LockNamespace{}, handler.EnqueueRequestsFromMapFunc(boundInstance)).
		WithOptions(controller.Options{MaxConcurrentReconciles: c.workers}).
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
	switch err := c.reader.Get(ctx, req.NamespacedName, instance); {
	case apierrors.IsNotFound(err):
		c.depart(ctx, c.seen.see(req.NamespacedName, nil))
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("get the RedisInstance: %w", err)
	}
	c.depart(ctx, c.seen.see(req.NamespacedName, instance))
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
	return reconcile.Result{RequeueAfter: next(instance, observed)}, nil
}

// period is that of the looks at a server while nothing happens.
func period(instance *v1alpha1.RedisInstance) time.Duration {
	if instance.Spec.Mode == v1alpha1.ModeExternal {
		return periodExternal
	}
	return periodManaged
}

// next is when to look again if nothing happens.
func next(instance *v1alpha1.RedisInstance, o observation) time.Duration {
	safe := lockSafety(o)
	switch {
	case o.unavailable != nil, o.shown != nil && o.shown.renewed != "":
		return periodUnavailable
	case o.settled && safe.Status == metav1.ConditionFalse:
		return periodChanged
	case !o.plan.grant:
		return max(time.Second, min(period(instance), o.remaining))
	}
	return period(instance)
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
	observed.secured = at.TLS == v1alpha1.TLSVerify
	in, err := c.login(ctx, instance)
	if err != nil {
		return err
	}
	if in.certificate != nil {
		// Before the pod starts with it.
		if err := in.certificate.verify(c.clock.Now()); err != nil {
			return err
		}
	}
	if instance.Spec.Mode == v1alpha1.ModeManaged {
		observed.managed = true
		if err := c.runServer(ctx, instance, in, tenants, observed); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := c.secure(ctx, instance, in, observed); err != nil {
		return err
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
	if !observed.secured {
		meta.RemoveStatusCondition(&instance.Status.Conditions, v1alpha1.ConditionTLSReady)
	}
	instance.Status.ObservedGeneration = instance.Generation
}

// announce writes events for what changed.
func (c *Controller) announce(before, instance *v1alpha1.RedisInstance, observed observation) {
	if observed.plan.lost != "" {
		c.recorder.Eventf(instance, nil, corev1.EventTypeWarning, "DataMayBeLost", "Quarantine",
			"%s. Epoch raised to %d; nothing is granted before %s.", upperFirst(observed.plan.lost), instance.Status.Epoch, observed.plan.quarantineUntil.UTC().Format(time.RFC3339))
	}
	for _, kind := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionLockSafe, v1alpha1.ConditionACLProgrammed} {
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
