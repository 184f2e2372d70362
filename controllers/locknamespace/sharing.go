// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
)

// ownerName is the LockNamespace whose keys lns asks to share.
func ownerName(lns *v1alpha1.LockNamespace) types.NamespacedName {
	return types.NamespacedName{Namespace: lns.Spec.ShareFrom.Namespace, Name: lns.Spec.ShareFrom.Name}
}

// keysOf is the LockNamespace whose keys lns uses: itself, or the owner.
func keysOf(lns *v1alpha1.LockNamespace, e evidence) *v1alpha1.LockNamespace {
	if lns.Spec.ShareFrom != nil && e.owner != nil {
		return e.owner
	}
	return lns
}

// shares reports whether owner lets lns share its keys. It names lns, or all of its namespace.
func shares(owner, lns *v1alpha1.LockNamespace) bool {
	for _, grant := range owner.Spec.ShareWith {
		if grant.Namespace == lns.Namespace && (grant.Name == "" || grant.Name == lns.Name) {
			return true
		}
	}
	return false
}

// consentingOwner is the owner of the keys that lns shares. Nil is one that does not exist or does not consent, which are not told apart: nobody
// learns by shareFrom what there is in other namespaces.
func (c *Controller) consentingOwner(ctx context.Context, lns *v1alpha1.LockNamespace) (*v1alpha1.LockNamespace, error) {
	if lns.Spec.ShareFrom == nil {
		return nil, nil //nolint:nilnil // Nobody's keys are shared.
	}
	owner := &v1alpha1.LockNamespace{}
	err := c.client.Get(ctx, ownerName(lns), owner)
	if apierrors.IsNotFound(err) || err == nil && !shares(owner, lns) {
		return nil, nil //nolint:nilnil // As the comment says.
	}
	if err != nil {
		return nil, fmt.Errorf("get LockNamespace %s: %w", ownerName(lns), err)
	}
	return owner, nil
}

func shareNotGranted(lns *v1alpha1.LockNamespace, _ target, e evidence) verdict {
	if lns.Spec.ShareFrom == nil || e.owner != nil {
		return verdict{}
	}
	return verdict{v1alpha1.ReasonShareNotGranted, fmt.Sprintf(
		"LockNamespace %s does not exist, or does not share its locks with this one. Ask its owner to add {namespace: %s, name: %s} to spec.shareWith.",
		ownerName(lns), lns.Namespace, lns.Name)}
}

// shareOwnerNotReady: the owner has to have its keys on a server before somebody shares them.
func shareOwnerNotReady(lns *v1alpha1.LockNamespace, t target, e evidence) verdict {
	if lns.Spec.ShareFrom == nil || t.backend != v1alpha1.BackendRedis {
		return verdict{}
	}
	bound := e.owner.Status.Backend == v1alpha1.BackendRedis && e.owner.Status.Binding != nil
	taken := e.holder != nil && e.holder.UID != e.owner.UID
	refused := e.instance != nil && !allows(e.instance, e.owner.Namespace, e.ownerLabels)
	if bound && !taken && !refused {
		return verdict{}
	}
	return verdict{v1alpha1.ReasonShareOwnerNotReady, fmt.Sprintf(
		"LockNamespace %s, whose locks this one shares, is not bound to a RedisInstance that accepts it. See its conditions.", ownerName(lns))}
}

// shareOwnerMoved: locks of other keys, or on another server, are other locks.
func shareOwnerMoved(lns *v1alpha1.LockNamespace, t target, e evidence) verdict {
	if lns.Spec.ShareFrom == nil || !t.recorded || t.backend != v1alpha1.BackendRedis {
		return verdict{}
	}
	ref := e.owner.Status.InstanceRef
	if ref != nil && ref.UID == string(t.uid) && lns.Status.Prefix == redisinstance.PrefixOf(e.owner) {
		return verdict{}
	}
	return verdict{v1alpha1.ReasonShareOwnerMoved, fmt.Sprintf(
		"LockNamespace %s, whose locks this one shares, was made anew on another RedisInstance or with another prefix. Scale the application to zero, delete this LockNamespace and create it anew.",
		ownerName(lns))}
}

func ttlAboveOwner(lns *v1alpha1.LockNamespace, t target, e evidence) verdict {
	if lns.Spec.ShareFrom == nil || t.backend != v1alpha1.BackendRedis {
		return verdict{}
	}
	limit := e.owner.Spec.TTL.Max.Duration
	if lns.Spec.TTL.Max.Duration <= limit {
		return verdict{}
	}
	return verdict{v1alpha1.ReasonTTLAboveOwnerMaximum, fmt.Sprintf(
		"spec.ttl.max is %s, and LockNamespace %s, whose locks this one shares, allows at most %s. Lower spec.ttl.max.", lns.Spec.TTL.Max.Duration, ownerName(lns), limit)}
}
