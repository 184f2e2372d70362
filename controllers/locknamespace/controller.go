// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/apply"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// Name of the controller, in logs and metrics.
const Name = "locknamespace"

// How long until a LockNamespace is looked at again, where no watch tells.
const (
	// retryLeases: Leases that run out are deleted by the reaper or the application.
	retryLeases = 5 * time.Second
	// retryBlocked: foreign objects and unavailable servers.
	retryBlocked = 30 * time.Second
	// resync looks for changes on the server.
	resync = 5 * time.Minute
)

// Config is what a Controller needs.
type Config struct {
	// Client writes.
	Client client.Client
	// Reader sees the API server, uncached.
	Reader client.Reader
	// Tenants programs Redis servers.
	Tenants RedisTenants
	// Recorder takes the events.
	Recorder events.EventRecorder
	// Clock gives conditions their times.
	Clock clock.PassiveClock
	// DefaultInstance is for LockNamespaces without an instanceRef. Defaults to none: those get Leases.
	DefaultInstance types.NamespacedName
}

// Controller binds LockNamespaces.
type Controller struct {
	client          client.Client
	reader          client.Reader
	tenants         RedisTenants
	recorder        events.EventRecorder
	clock           clock.PassiveClock
	defaultInstance types.NamespacedName
}

// New returns a Controller.
func New(config Config) *Controller {
	return &Controller{
		client: config.Client, reader: config.Reader, tenants: config.Tenants, recorder: config.Recorder, clock: config.Clock,
		defaultInstance: config.DefaultInstance,
	}
}

// +kubebuilder:rbac:groups=lockstead.dev,resources=locknamespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=lockstead.dev,resources=locknamespaces/status,verbs=get;patch
// +kubebuilder:rbac:groups=lockstead.dev,resources=locknamespaces/finalizers,verbs=update
// +kubebuilder:rbac:groups=lockstead.dev,resources=redisinstances,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one LockNamespace to what it asks for.
func (c *Controller) Reconcile(ctx context.Context, lns *v1alpha1.LockNamespace) (reconcile.Result, error) {
	if !lns.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	before := lns.DeepCopy()
	o, result, err := c.reconcile(ctx, lns)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return reconcile.Result{}, nil
	}
	if err != nil && o == (outcome{}) {
		return reconcile.Result{}, err
	}
	setConditions(lns, o, c.clock.Now())
	if statusErr := c.patchStatus(ctx, before, lns); statusErr != nil {
		return reconcile.Result{}, errors.Join(err, statusErr)
	}
	for _, event := range transitions(before.Status.Conditions, lns.Status.Conditions) {
		c.recorder.Eventf(lns, nil, event.kind, event.reason, "Bind", "%s", event.message)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

// reconcile changes the status fields other than the conditions, which follow from the outcome. An error together with an outcome is tried
// again and told; an error alone says nothing about the LockNamespace.
func (c *Controller) reconcile(ctx context.Context, lns *v1alpha1.LockNamespace) (outcome, reconcile.Result, error) {
	secret, err := c.readSecret(ctx, lns)
	if err != nil {
		return outcome{}, reconcile.Result{}, err
	}
	restoreRecord(lns, secret)
	t := chooseTarget(lns, c.defaultInstance)
	e, err := c.gather(ctx, lns, t)
	if err != nil {
		return outcome{}, reconcile.Result{}, err
	}
	if v := objection(lns, t, e); v.reason != "" {
		return c.refuse(ctx, lns, t, e, v)
	}
	if !t.recorded {
		if err := c.record(ctx, lns, t, e); err != nil {
			return outcome{}, reconcile.Result{}, err
		}
	}
	p, result, err := c.program(ctx, lns, e.instance, secret)
	if err == nil && p.done.reason != "" {
		lns.Status.Binding = &v1alpha1.BindingReference{Name: secretName(lns)}
	}
	return outcome{programmed: p}, result, err
}

// gather looks up what the decision needs.
func (c *Controller) gather(ctx context.Context, lns *v1alpha1.LockNamespace, t target) (evidence, error) {
	var e evidence
	if t.backend != v1alpha1.BackendRedis {
		return e, nil
	}
	instance := &v1alpha1.RedisInstance{}
	switch err := c.client.Get(ctx, t.instance, instance); {
	case apierrors.IsNotFound(err):
		return e, nil
	case err != nil:
		return e, fmt.Errorf("get RedisInstance %s: %w", t.instance, err)
	}
	e.instance = instance
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.client.Get(ctx, types.NamespacedName{Name: lns.Namespace}, namespace); err != nil {
		return e, fmt.Errorf("get namespace %s: %w", lns.Namespace, err)
	}
	e.namespaceLabels = namespace.Labels
	if t.recorded {
		return e, nil
	}
	leases := &metav1.PartialObjectMetadataList{}
	leases.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("LeaseList"))
	selector, err := labels.Parse(leaseformat.PrefixSelector(redisinstance.PrefixOf(lns)))
	if err != nil {
		return e, fmt.Errorf("selector of the Leases: %w", err)
	}
	if err := c.reader.List(ctx, leases, client.InNamespace(lns.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.Limit(1)); err != nil {
		return e, fmt.Errorf("list the Leases of the prefix: %w", err)
	}
	e.leases = len(leases.Items) > 0
	return e, nil
}

// refuse takes back what the owner of the instance no longer consents to.
func (c *Controller) refuse(ctx context.Context, lns *v1alpha1.LockNamespace, t target, e evidence, v verdict) (outcome, reconcile.Result, error) {
	o := outcome{accepted: v}
	switch v.reason {
	case v1alpha1.ReasonLeasesExist:
		return o, reconcile.Result{RequeueAfter: retryLeases}, nil
	case v1alpha1.ReasonNotAllowedByInstance:
		if t.recorded && e.instance != nil {
			if err := c.tenants.Revoke(ctx, e.instance, usernameOf(lns)); err != nil {
				return o, reconcile.Result{}, fmt.Errorf("revoke the user: %w", err)
			}
		}
	}
	return o, reconcile.Result{}, nil
}

// record makes the decision last before anything is made that follows from it. The version that was read has to be the present one, so
// that a decision from an old view is not recorded.
func (c *Controller) record(ctx context.Context, lns *v1alpha1.LockNamespace, t target, e evidence) error {
	before := lns.DeepCopy()
	if e.instance != nil {
		t.uid = e.instance.UID
	}
	record(lns, t)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Status().Patch(ctx, lns, patch); err != nil {
		return fmt.Errorf("record the backend: %w", err)
	}
	return nil
}

// program makes the backend know the LockNamespace, and then writes the Secret.
func (c *Controller) program(ctx context.Context, lns *v1alpha1.LockNamespace, instance *v1alpha1.RedisInstance, secret bindingSecret) (programmed, reconcile.Result, error) {
	if secret.foreign {
		return unprogrammed(verdict{v1alpha1.ReasonSecretConflict, fmt.Sprintf(
			"Secret %s exists and was not made for this LockNamespace. It is left alone: rename or delete it, or create the LockNamespace anew with another spec.binding.secretName.",
			secretName(lns))}), reconcile.Result{RequeueAfter: retryBlocked}, nil
	}
	if instance == nil {
		if v, err := c.programRBAC(ctx, lns); err != nil || v.reason != "" {
			return unprogrammed(v), reconcile.Result{RequeueAfter: retryBlocked}, err
		}
		p, err := c.publish(ctx, lns, secret, leaseBinding(lns, secret.data()), nil)
		return p, reconcile.Result{}, err
	}
	return c.programRedis(ctx, lns, instance, secret)
}

// publish writes the Secret, the last step.
func (c *Controller) publish(ctx context.Context, lns *v1alpha1.LockNamespace, secret bindingSecret, b *binding.Binding, rotation map[string]string) (programmed, error) {
	err := c.writeSecret(ctx, lns, secret, b, rotation)
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		// Somebody wrote or deleted it at the same time: nothing to tell anybody about, the next look decides.
		return programmed{}, err
	case err != nil:
		return unprogrammed(failed(err)), err
	}
	return programmed{done: verdict{v1alpha1.ReasonProgrammed, "The backend and Secret " + secretName(lns) + " are in place."}}, nil
}

func failed(err error) verdict {
	return verdict{v1alpha1.ReasonProgramFailed, "Tried again: " + err.Error()}
}

// programRBAC lets the consumers write Leases.
func (c *Controller) programRBAC(ctx context.Context, lns *v1alpha1.LockNamespace) (verdict, error) {
	children := []struct {
		live    client.Object
		desired any
	}{{&rbacv1.Role{}, desiredRole(lns)}, {&rbacv1.RoleBinding{}, desiredRoleBinding(lns)}}
	for _, child := range children {
		_, err := apply.Object(ctx, c.reader, c.client, lns.UID, child.live, child.desired)
		if errors.Is(err, apply.ErrForeign) {
			return verdict{v1alpha1.ReasonObjectConflict, fmt.Sprintf(
				"A Role or RoleBinding %s exists and was not made for this LockNamespace. It is left alone: rename or delete it.", roleName(lns))}, nil
		}
		if err != nil {
			return failed(err), err //nolint:wrapcheck // It names the object.
		}
	}
	return verdict{}, nil
}

// patchStatus writes the status if it changed.
func (c *Controller) patchStatus(ctx context.Context, before, after *v1alpha1.LockNamespace) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	base := before.DeepCopy()
	base.ResourceVersion = after.ResourceVersion // Recording the backend in between moved it.
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := c.client.Status().Patch(ctx, after.DeepCopy(), patch); err != nil {
		return fmt.Errorf("patch the status: %w", err)
	}
	return nil
}
