// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
)

// eventPasswordRotated is the reason of the event of a rotation.
const eventPasswordRotated = "PasswordRotated"

// programRedis does one step: the server gets the user, with a new password beside the present one if one is due, and the Secret follows.
// Nobody has a password that the server does not know, wherever the operator ends.
func (c *Controller) programRedis(ctx context.Context, lns *v1alpha1.LockNamespace, e evidence, secret bindingSecret) (programmed, reconcile.Result, error) {
	spec, instance, keys := lns.Spec.Credentials, e.instance, keysOf(lns, e)
	bound := lns.Status.Binding != nil
	step := planRotation(readCredentials(secret, usernameOf(lns), c.clock.Now()), spec, bound, c.clock.Now())
	// The epoch record is that of the keys, so it has the longest TTL of their owner.
	tenant := step.tenant(usernameOf(lns), redisinstance.PrefixOf(keys), min(keys.Spec.TTL.Max.Duration, instance.Spec.Limits.MaxTTL.Duration))
	tenant.Programmed = keys.Status.Binding != nil
	records, err := c.reserveRecords(ctx, lns, instance)
	if err != nil {
		return programmed{}, reconcile.Result{}, err
	}
	tenant.HadRecords = redisinstance.KeepsRecords(lns)
	if records.share != nil {
		limits := redisinstance.RecordLimits(records.share)
		tenant.Records = &limits
	}
	grant, err := c.tenants.Program(ctx, instance, tenant)
	if errors.Is(err, redisinstance.ErrNotAvailable) {
		// The error has details that change with every attempt; the status must not.
		log.FromContext(ctx).V(1).Info("The server cannot be programmed now", "error", err.Error())
		return unprogrammed(verdict{v1alpha1.ReasonInstanceNotAvailable, fmt.Sprintf(
			"RedisInstance %s/%s cannot be programmed now; its conditions say why.", instance.Namespace, instance.Name)}), reconcile.Result{RequeueAfter: retryBlocked}, nil
	}
	if refused, ok := errors.AsType[*redisinstance.RefusedError](err); ok {
		return unprogrammed(refusedBy(instance, refused)), reconcile.Result{RequeueAfter: retryBlocked}, nil
	}
	if err != nil {
		err = fmt.Errorf("program the server: %w", err)
		return unprogrammed(failed(err)), reconcile.Result{}, err
	}
	grant.Server.Records = bindingRecords(records.share)
	b := redisBinding(lns, tenant.Prefix, instance, grant.Server)
	if grant.NotEnforced {
		p, err := c.publish(ctx, lns, secret, b, nil)
		if p.done.reason != "" {
			lns.Status.Credentials = nil
			p.done, p.records = notEnforced(lns, instance), records
			lns.Status.IdempotencyRecords = nil
		}
		return p, reconcile.Result{RequeueAfter: resync}, err
	}
	now := c.clock.Now()
	next := step.next
	next.previous = grant.Previous
	if step.renewed {
		next.rotatedAt = wholeSeconds(now)
	}
	p, err := c.publish(ctx, lns, secret, b, next.annotations())
	if p.done.reason == "" {
		return p, reconcile.Result{}, err
	}
	p.records = records
	// Others can have what is not used any more.
	lns.Status.IdempotencyRecords = records.share.DeepCopy()
	status, due := schedule(next, spec)
	lns.Status.Credentials = status
	if step.renewed && bound {
		message := fmt.Sprintf("Secret %s has a new password.", secretName(lns))
		if status.PreviousValidUntil != nil {
			message += fmt.Sprintf(" The previous one works until %s.", status.PreviousValidUntil.UTC().Format(time.RFC3339))
		}
		c.recorder.Eventf(lns, nil, corev1.EventTypeNormal, eventPasswordRotated, "Rotate", "%s", message)
	}
	after := resync
	if records.refused.reason != "" {
		after = retryBlocked
	}
	if !due.IsZero() {
		after = min(after, max(time.Second, due.Sub(now)))
	}
	return p, reconcile.Result{RequeueAfter: after}, nil
}

// refusedBy tells what somebody has to do about a server that answers, and refuses.
func refusedBy(instance *v1alpha1.RedisInstance, refused *redisinstance.RefusedError) verdict {
	remedy := "Ask its owner to look at the server."
	if errors.Is(refused, redisadmin.ErrDenied) {
		remedy = "Ask its owner to grant that right to the operator's user."
	}
	return verdict{v1alpha1.ReasonProgramFailed, fmt.Sprintf("The server of RedisInstance %s/%s cannot be programmed: %v. %s It is tried again.",
		instance.Namespace, instance.Name, refused.Cause, remedy)}
}

// notEnforced tells what a server does not do that has one user for all.
func notEnforced(lns *v1alpha1.LockNamespace, instance *v1alpha1.RedisInstance) verdict {
	message := fmt.Sprintf("The backend and Secret %s are in place. All applications log in to the server of RedisInstance %s/%s as one user, so nothing but "+
		"convention keeps them away from each other's locks.", secretName(lns), instance.Namespace, instance.Name)
	if spec := lns.Spec.Credentials; spec.RotationInterval != nil || spec.RotationCounter != 0 {
		message += " Its password is not rotated, since it is the owner's of that RedisInstance: leave out spec.credentials.rotationInterval and rotationCounter."
	}
	return verdict{v1alpha1.ReasonNotEnforced, message}
}
