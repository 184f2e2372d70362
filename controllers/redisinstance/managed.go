// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/apply"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// runServer brings the children of a managed RedisInstance to their desired state. The error is an unavailableError while the pod is not ready.
func (c *Controller) runServer(ctx context.Context, instance *v1alpha1.RedisInstance, in login) error {
	var listErr error
	err := c.editBootFile(ctx, instance, in.system, func(users []redisproto.User) []redisproto.User {
		tenants, err := c.listTenants(ctx, instance)
		if err != nil {
			listErr = err
			return users
		}
		return slices.DeleteFunc(users, func(user redisproto.User) bool { return !tenants.users.Has(user.Name) })
	})
	if err := errors.Join(listErr, err); err != nil {
		return err
	}
	var hashes []string
	for _, user := range in.system {
		hashes = append(hashes, user.PasswordHashes...)
	}
	statefulSet := &appsv1.StatefulSet{}
	for _, child := range []struct {
		live    client.Object
		desired any
	}{
		{&corev1.ConfigMap{}, desiredConfigMap(instance)},
		{&corev1.Service{}, desiredService(instance)},
		{statefulSet, desiredStatefulSet(instance, bootDigest(instance, hashes))},
	} {
		_, err := apply.Object(ctx, c.reader, c.client, instance.UID, child.live, child.desired)
		if errors.Is(err, apply.ErrForeign) {
			return &unavailableError{v1alpha1.ReasonObjectConflict, "It is left alone, and no server is run: " + err.Error() + "."}
		}
		if err != nil {
			return err //nolint:wrapcheck // apply names the object.
		}
	}
	if statefulSet.Status.ReadyReplicas == 0 {
		return &unavailableError{v1alpha1.ReasonPodNotReady, fmt.Sprintf(
			"Pod %s-0 is not ready. See kubectl -n %s describe pod %[1]s-0, and its volume claim data-%[1]s-0.", childName(instance.Name), instance.Namespace)}
	}
	return nil
}
