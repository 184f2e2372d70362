// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	// binding is held while a backend is chosen and recorded. Of several operators only the elected one acts.
	binding sync.Mutex
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
		if o.forOwner != "" {
			c.recorder.Eventf(o.instance, nil, event.kind, event.reason, "Bind", "%s", o.forOwner)
		}
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
	t, e, v, err := c.accept(ctx, lns, secret)
	if err != nil {
		return outcome{}, reconcile.Result{}, err
	}
	if v.reason != "" {
		return c.refuse(ctx, lns, t, e, v)
	}
	p, result, err := c.program(ctx, lns, e, secret)
	if err == nil && p.done.reason != "" {
		lns.Status.Binding = &v1alpha1.BindingReference{Name: secretName(lns)}
	}
	return outcome{programmed: p}, result, err
}

// accept decides about the backend, and records it if that is new. Decisions that are to be recorded are made one after the other, since each
// depends on the records of others.
func (c *Controller) accept(ctx context.Context, lns *v1alpha1.LockNamespace, secret bindingSecret) (target, evidence, verdict, error) {
	owner, err := c.consentingOwner(ctx, lns)
	if err != nil {
		return target{}, evidence{}, verdict{}, err
	}
	stored := lns.DeepCopy()
	restored := restoreRecord(lns, secret)
	t := chooseTarget(lns, owner, c.defaultInstance)
	t.restored = restored
	if !t.settled() {
		c.binding.Lock()
		defer c.binding.Unlock()
	}
	e, err := c.gather(ctx, lns, t, evidence{owner: owner})
	if err != nil {
		return t, e, verdict{}, err
	}
	v := objection(lns, t, e)
	switch {
	case v.reason != "" && restored:
		lns.Status = stored.Status // What was refused is no record that others respect.
	case v.reason == "" && !t.settled():
		err = c.record(ctx, stored, lns, t, e)
	}
	return t, e, v, err
}

// gather looks up what the decision needs beside the owner.
func (c *Controller) gather(ctx context.Context, lns *v1alpha1.LockNamespace, t target, e evidence) (evidence, error) {
	if t.backend != v1alpha1.BackendRedis || t.instance.Name == "" {
		return e, nil
	}
	instance := &v1alpha1.RedisInstance{}
	err := c.client.Get(ctx, t.instance, instance)
	if apierrors.IsNotFound(err) {
		return e, nil
	}
	if err != nil {
		return e, fmt.Errorf("get RedisInstance %s: %w", t.instance, err)
	}
	e.instance = instance
	if e.namespaceLabels, err = c.namespaceLabels(ctx, lns.Namespace); err != nil {
		return e, err
	}
	if e.owner != nil {
		if e.ownerLabels, err = c.namespaceLabels(ctx, e.owner.Namespace); err != nil {
			return e, err
		}
	}
	if e.claims, err = c.gatherClaims(ctx, lns, t, e); err != nil || t.settled() {
		return e, err
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

func (c *Controller) namespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.client.Get(ctx, types.NamespacedName{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return namespace.Labels, nil
}

// refuse takes back what its owner no longer consents to.
func (c *Controller) refuse(ctx context.Context, lns *v1alpha1.LockNamespace, t target, e evidence, v verdict) (outcome, reconcile.Result, error) {
	o := outcome{accepted: v}
	switch v.reason {
	case v1alpha1.ReasonLeasesExist:
		return o, reconcile.Result{RequeueAfter: retryLeases}, nil
	case v1alpha1.ReasonPrefixTaken:
		o.forOwner = fmt.Sprintf("LockNamespace %s/%s asks for the prefix %s, which %s/%s has.",
			lns.Namespace, lns.Name, redisinstance.PrefixOf(lns), e.holder.Namespace, e.holder.Name)
		o.instance = e.instance
	}
	if t.recorded && e.instance != nil && e.instance.UID == t.uid && v1alpha1.RevokesAccess(v.reason) {
		err := c.tenants.Revoke(ctx, e.instance, usernameOf(lns))
		if errors.Is(err, redisinstance.ErrNotAvailable) {
			// It is tried again when the RedisInstance changes, and at the latest then.
			return o, reconcile.Result{RequeueAfter: retryBlocked}, nil
		}
		if err != nil {
			return o, reconcile.Result{}, fmt.Errorf("revoke the user: %w", err)
		}
	}
	return o, reconcile.Result{}, nil
}

// record makes the decision last before anything is made that follows from it. The version that was read has to be the present one, so
// that a decision from an old view is not recorded.
func (c *Controller) record(ctx context.Context, stored, lns *v1alpha1.LockNamespace, t target, e evidence) error {
	if e.instance != nil {
		t.uid = e.instance.UID
	}
	record(lns, t, redisinstance.PrefixOf(keysOf(lns, e)))
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := c.client.Status().Patch(ctx, lns, patch); err != nil {
		return fmt.Errorf("record the backend: %w", err)
	}
	return nil
}

// program makes the backend know the LockNamespace, and then writes the Secret.
func (c *Controller) program(ctx context.Context, lns *v1alpha1.LockNamespace, e evidence, secret bindingSecret) (programmed, reconcile.Result, error) {
	if secret.foreign {
		return unprogrammed(verdict{v1alpha1.ReasonSecretConflict, fmt.Sprintf(
			"Secret %s exists and was not made for this LockNamespace. It is left alone: rename or delete it, or create the LockNamespace anew with another spec.binding.secretName.",
			secretName(lns))}), reconcile.Result{RequeueAfter: retryBlocked}, nil
	}
	if e.instance == nil {
		if v, err := c.programRBAC(ctx, lns); err != nil || v.reason != "" {
			return unprogrammed(v), reconcile.Result{RequeueAfter: retryBlocked}, err
		}
		p, err := c.publish(ctx, lns, secret, leaseBinding(lns, secret.data()), nil)
		return p, reconcile.Result{}, err
	}
	return c.programRedis(ctx, lns, e, secret)
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
