// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// LabelCredentials has to be "true" on a Secret whose content the operator sends to a server. Without it whoever may create a RedisInstance could
// have any Secret of the namespace sent to a host of his own.
const LabelCredentials = "lockstead.dev/credentials"

// credentials is a user of an external server.
type credentials struct {
	username, password string
	ca                 []byte
}

// readCredentials reads a Secret that a spec names. The error is an unavailableError when people have to do something.
func (s *servers) readCredentials(ctx context.Context, namespace, name string) (credentials, error) {
	secret, err := getSecret(ctx, s.reader, namespace, name)
	if apierrors.IsNotFound(err) {
		return credentials{}, invalidCredentials("Secret %s does not exist. Create it with the entries username and password, and the label %s=true.", name, LabelCredentials)
	}
	if err != nil {
		return credentials{}, fmt.Errorf("get Secret %s: %w", name, err)
	}
	return credentialsOf(secret)
}

func credentialsOf(secret *corev1.Secret) (credentials, error) {
	if secret.Labels[LabelCredentials] != "true" {
		return credentials{}, invalidCredentials("Secret %[2]s is not marked as one that may be sent to a server. If it is, run kubectl -n %[1]s label secret %[2]s %[3]s=true.",
			secret.Namespace, secret.Name, LabelCredentials)
	}
	for _, entry := range []string{entryUsername, entryPassword} {
		if len(secret.Data[entry]) == 0 {
			return credentials{}, invalidCredentials("Secret %s has no entry %s. Add it.", secret.Name, entry)
		}
	}
	return credentials{username: string(secret.Data[entryUsername]), password: string(secret.Data[entryPassword]), ca: secret.Data[entryCA]}, nil
}

func invalidCredentials(format string, args ...any) error {
	return &unavailableError{v1alpha1.ReasonCredentialsInvalid, fmt.Sprintf(format, args...)}
}

// Isolated reports whether the server of instance keeps LockNamespaces apart. Where nobody can administer its users, all log in as one.
func Isolated(instance *v1alpha1.RedisInstance) bool {
	return instance.Spec.External == nil || instance.Spec.External.ACLManagement != v1alpha1.ACLManagementStatic
}
