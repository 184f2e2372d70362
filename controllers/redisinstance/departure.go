// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
)

// acquaintances are the RedisInstances as this process saw them last. They are safe for concurrent use.
type acquaintances struct {
	mu   sync.Mutex
	last map[types.NamespacedName]*v1alpha1.RedisInstance
}

// see replaces what is known under a name, nil being nothing, and returns what was known before of another object.
func (a *acquaintances) see(name types.NamespacedName, instance *v1alpha1.RedisInstance) (gone *v1alpha1.RedisInstance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.last[name]
	if instance == nil {
		delete(a.last, name)
		return before
	}
	a.last[name] = instance.DeepCopy()
	if before != nil && before.UID != instance.UID {
		return before
	}
	return nil
}

// depart forgets a RedisInstance that is gone, and deletes its users from an external server. That is an effort only: nothing waited for it, so
// the server or its Secret may be gone too. What stays is swept by the next RedisInstance of the server.
func (c *Controller) depart(ctx context.Context, gone *v1alpha1.RedisInstance) {
	if gone == nil {
		return
	}
	c.quarantines.forget(gone.UID)
	c.rounds.forget(gone.UID)
	c.metrics.forget(gone)
	if gone.Spec.Mode != v1alpha1.ModeExternal || !Isolated(gone) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	deleted, err := c.deleteUsers(ctx, gone)
	if err != nil {
		log.FromContext(ctx).Info("users of a RedisInstance that is gone may be left on its server", "reason", err.Error(), "deleted", deleted)
	}
}

func (c *Controller) deleteUsers(ctx context.Context, gone *v1alpha1.RedisInstance) (deleted int, err error) {
	in, err := c.login(ctx, gone)
	if err != nil {
		return 0, err
	}
	admin, err := c.connect(ctx, in)
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	names, err := admin.TenantUsers(ctx)
	if err != nil {
		return 0, err //nolint:wrapcheck // redisadmin says what was done.
	}
	for _, name := range names {
		removed, err := admin.DeleteUser(ctx, name, redisadmin.UserMark(keyRoot, string(gone.UID)))
		if err != nil {
			return deleted, err //nolint:wrapcheck // As above.
		}
		if removed {
			deleted++
		}
	}
	return deleted, nil
}
