// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
)

// claims are what the LockNamespaces of one RedisInstance have of it.
type claims struct {
	// bound is how many there are.
	bound int
	// holder has the prefix, or comes first. Nil is nobody else.
	holder *v1alpha1.LockNamespace
}

// gatherClaims looks who has the prefix of keys on the server of e.instance. What is not recorded yet is compared with the API server, since what
// it shows is recorded next.
func (c *Controller) gatherClaims(ctx context.Context, lns *v1alpha1.LockNamespace, t target, e evidence) (claims, error) {
	var list v1alpha1.LockNamespaceList
	var err error
	if t.settled() {
		err = c.client.List(ctx, &list, client.UnsafeDisableDeepCopy) // Nothing is changed in it.
	} else {
		err = c.reader.List(ctx, &list)
	}
	if err != nil {
		return claims{}, fmt.Errorf("list LockNamespaces: %w", err)
	}
	keys := keysOf(lns, e)
	prefix := redisinstance.PrefixOf(keys)
	var found claims
	for i := range list.Items {
		if redisinstance.BoundTo(&list.Items[i], e.instance.UID) {
			found.bound++
		}
	}
	if found.holder = redisinstance.HolderOf(prefix, e.instance.UID, list.Items); found.holder != nil || t.settled() || keys != lns {
		return found, nil
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == lns.UID || !redisinstance.HasPrefix(other, prefix) || !redisinstance.Older(other, lns) || !other.DeletionTimestamp.IsZero() {
			continue
		}
		first, err := c.comesFirst(ctx, other, t, e)
		if err != nil {
			return found, err
		}
		if first {
			found.holder = other
		}
	}
	return found, nil
}

// comesFirst reports whether an older LockNamespace waits for the same prefix on the same RedisInstance, and may have it.
func (c *Controller) comesFirst(ctx context.Context, other *v1alpha1.LockNamespace, t target, e evidence) (bool, error) {
	wants := chooseTarget(other, nil, c.defaultInstance)
	if wants.recorded || wants.instance != t.instance {
		return false, nil
	}
	namespaceLabels, err := c.namespaceLabels(ctx, other.Namespace)
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	return err == nil && objection(other, wants, evidence{instance: e.instance, namespaceLabels: namespaceLabels}).reason == "", nil
}
