// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// Entries of the Secrets with credentials.
const (
	entryUsername = "username"
	entryPassword = "password"
	entryCA       = "ca.crt"
)

// getSecret reads a Secret from the API server. Secrets are not cached, since the operator must not hold those of others in its memory.
func getSecret(ctx context.Context, reader client.Reader, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret)
	if err != nil {
		return nil, err //nolint:wrapcheck // Callers tell absence from failure, and wrap.
	}
	return secret, nil
}

// ownedSecret returns the Secret of instance with this name and reports whether it exists. One of somebody else is an error.
func (s *servers) ownedSecret(ctx context.Context, instance *v1alpha1.RedisInstance, name string) (*corev1.Secret, bool, error) {
	secret, err := getSecret(ctx, s.reader, instance.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("get Secret %s: %w", name, err)
	}
	if !metav1.IsControlledBy(secret, instance) {
		return nil, false, &unavailableError{v1alpha1.ReasonSecretConflict, fmt.Sprintf(
			"Secret %s exists and does not belong to this RedisInstance. It is left alone: rename or delete it, or give the RedisInstance another name.", name)}
	}
	return secret, true, nil
}

// ensurePassword returns the password in the Secret of instance with this name, and makes both if they are missing.
func (s *servers) ensurePassword(ctx context.Context, instance *v1alpha1.RedisInstance, name, username string) (string, error) {
	secret, exists, err := s.ownedSecret(ctx, instance, name)
	if err != nil {
		return "", err
	}
	if !exists {
		password := redisadmin.NewPassword()
		secret := secretObject(instance, name, map[string][]byte{entryUsername: []byte(username), entryPassword: []byte(password)})
		if err := s.client.Create(ctx, secret); err != nil {
			return "", fmt.Errorf("create Secret %s: %w", name, err)
		}
		return password, nil
	}
	if password := secret.Data[entryPassword]; len(password) > 0 && string(secret.Data[entryUsername]) == username {
		return string(password), nil
	}
	before := secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[entryUsername] = []byte(username)
	if len(secret.Data[entryPassword]) == 0 {
		secret.Data[entryPassword] = []byte(redisadmin.NewPassword())
	}
	if err := s.client.Patch(ctx, secret, unchangedSince(before)); err != nil {
		return "", fmt.Errorf("patch Secret %s: %w", name, err)
	}
	return string(secret.Data[entryPassword]), nil
}

// unchangedSince is a patch of what differs from before, which the API server refuses if somebody else wrote meanwhile.
func unchangedSince(before *corev1.Secret) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// readBootUsers are the tenants' users in the ACL file that the pod of instance boots from.
func (s *servers) readBootUsers(ctx context.Context, instance *v1alpha1.RedisInstance) ([]redisproto.User, error) {
	secret, exists, err := s.ownedSecret(ctx, instance, aclSecretName(instance.Name))
	if err != nil || !exists {
		return nil, err
	}
	return parseBootFile(string(secret.Data[aclFile])), nil
}

// editBootFile changes the tenants in the ACL file that the pod of instance boots from. Edits by other workers at the same time lead to a
// conflict, not to a lost user.
func (s *servers) editBootFile(ctx context.Context, instance *v1alpha1.RedisInstance, system []redisproto.User, edit func([]redisproto.User) []redisproto.User) error {
	name := aclSecretName(instance.Name)
	secret, exists, err := s.ownedSecret(ctx, instance, name)
	if err != nil {
		return err
	}
	var present string
	if exists {
		present = string(secret.Data[aclFile])
	}
	text, err := bootFile(system, edit(parseBootFile(present)))
	if err != nil {
		return fmt.Errorf("render the ACL file: %w", err)
	}
	switch {
	case !exists:
		if err := s.client.Create(ctx, secretObject(instance, name, map[string][]byte{aclFile: []byte(text)})); err != nil {
			return fmt.Errorf("create Secret %s: %w", name, err)
		}
	case text != present:
		before := secret.DeepCopy()
		secret.Data = map[string][]byte{aclFile: []byte(text)}
		if err := s.client.Patch(ctx, secret, unchangedSince(before)); err != nil {
			return fmt.Errorf("patch Secret %s: %w", name, err)
		}
	}
	return nil
}
