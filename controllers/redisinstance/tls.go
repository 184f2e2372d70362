// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
)

// secureManaged adds to a login what a managed server with TLS needs.
func (s *servers) secureManaged(ctx context.Context, instance *v1alpha1.RedisInstance, in *login) error {
	settings := managedServer(instance).TLS
	if settings.Mode != v1alpha1.ManagedTLSSecret {
		return nil
	}
	secret, err := getSecret(ctx, s.reader, instance.Namespace, settings.SecretName)
	if apierrors.IsNotFound(err) {
		return invalidCertificate("Secret %s does not exist. Create it with the entries tls.crt, tls.key and ca.crt, for the DNS name %s.", settings.SecretName, serviceHost(instance))
	}
	if err != nil {
		return fmt.Errorf("get Secret %s: %w", settings.SecretName, err)
	}
	found, err := certificateOf(secret, serviceHost(instance))
	if err != nil {
		return err
	}
	admin, exists, err := s.ownedSecret(ctx, instance, adminSecretName(instance.Name))
	if err != nil {
		return err
	}
	in.ca = withAuthorities(found.ca, nil)
	if exists {
		// Until the server shows the new certificate, it shows one of the authority that was trusted before.
		in.ca = withAuthorities(found.ca, admin.Data[entryCA])
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(in.ca)
	in.target.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serviceHost(instance), RootCAs: roots}
	in.certificate = &found
	return nil
}

// secure looks at the certificate that a server shows, and lets a managed one load the certificate of its Secret.
func (c *Controller) secure(ctx context.Context, instance *v1alpha1.RedisInstance, in login, observed *observation) error {
	if in.target.TLS == nil {
		return nil
	}
	admin, err := c.connect(ctx, in)
	if err != nil {
		return err
	}
	defer admin.Close()
	leaf := admin.Certificate()
	renewed := ""
	if wanted := in.certificate; wanted != nil && !leaf.Equal(wanted.leaf) {
		if leaf, err = c.reload(ctx, in, admin); err != nil {
			return err
		}
		if !leaf.Equal(wanted.leaf) {
			renewed = wanted.secret
		} else {
			log.FromContext(ctx).Info("the server shows the new certificate", "secret", wanted.secret, "notAfter", wanted.leaf.NotAfter)
		}
	}
	observed.shown = &shown{notAfter: leaf.NotAfter, soon: leaf.NotAfter.Sub(c.clock.Now()) < renewalNotice, renewed: renewed}
	if in.certificate != nil && renewed == "" {
		return c.trust(ctx, instance, in.certificate.ca)
	}
	return nil
}

// reload lets a server load its certificate anew and returns the one that it shows then. The files in the pod may still be the old ones, or ones
// that were corrected since, so that a refusal is not final.
func (c *Controller) reload(ctx context.Context, in login, admin *redisadmin.Client) (*x509.Certificate, error) {
	if err := admin.ReloadCertificates(ctx); err != nil && !redisadmin.IsRefusal(err) {
		return nil, serverProblem(err)
	} else if err != nil {
		log.FromContext(ctx).Info("the server refuses the certificate in its pod, and goes on with the one that it has", "reason", err.Error())
	}
	again, err := c.connect(ctx, in)
	if err != nil {
		return nil, err
	}
	defer again.Close()
	return again.Certificate(), nil
}

// trust records the authorities with which the certificate that the server shows was verified, for the time when the Secret has others.
func (c *Controller) trust(ctx context.Context, instance *v1alpha1.RedisInstance, ca []byte) error {
	name := adminSecretName(instance.Name)
	secret, exists, err := c.ownedSecret(ctx, instance, name)
	if err != nil || !exists || bytes.Equal(secret.Data[entryCA], ca) {
		return err
	}
	before := secret.DeepCopy()
	secret.Data[entryCA] = ca
	if err := c.client.Patch(ctx, secret, unchangedSince(before)); err != nil {
		return fmt.Errorf("patch Secret %s: %w", name, err)
	}
	return nil
}
