// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// servers finds the server of a RedisInstance and connects to it. It is what the controller and Tenants share.
type servers struct {
	client    client.Client
	reader    client.Reader // sees everything, uncached
	connector *redisadmin.Connector
}

// unavailableError says why a server cannot be used now, in the words of the condition Available.
type unavailableError struct{ reason, message string }

func (e *unavailableError) Error() string { return e.message }

// endpoint is where applications and the operator reach the server of instance.
func endpoint(instance *v1alpha1.RedisInstance) v1alpha1.Endpoint {
	if external := instance.Spec.External; external != nil {
		tls := external.TLS.Mode
		if tls == "" {
			tls = v1alpha1.TLSVerify
		}
		return v1alpha1.Endpoint{Host: external.Host, Port: external.Port, TLS: tls}
	}
	mode := v1alpha1.TLSDisabled
	if managedServer(instance).TLS.Mode == v1alpha1.ManagedTLSSecret {
		mode = v1alpha1.TLSVerify
	}
	return v1alpha1.Endpoint{Host: serviceHost(instance), Port: redisPort, TLS: mode}
}

// login is how the operator logs in to a server.
type login struct {
	target redisadmin.Target
	ca     []byte
	// system are the users of the ACL file of a managed server that are not a tenant's.
	system []redisproto.User
	// certificate is the one that a managed server should show; nil for one in the clear.
	certificate *certificate
}

// managedLogin makes the credentials of a managed server, if they are missing.
func (s *servers) managedLogin(ctx context.Context, instance *v1alpha1.RedisInstance) (login, error) {
	operator, err := s.ensurePassword(ctx, instance, adminSecretName(instance.Name), operatorUser)
	if err != nil {
		return login{}, err
	}
	probe, err := s.ensurePassword(ctx, instance, probeSecretName(instance.Name), probeUser)
	if err != nil {
		return login{}, err
	}
	in := login{
		target: redisadmin.Target{Address: address(endpoint(instance)), Username: operatorUser, Password: operator},
		system: systemUsers(operator, probe),
	}
	err = s.secureManaged(ctx, instance, &in)
	return in, err
}

// externalLogin reads the credentials of an external server.
func (s *servers) externalLogin(ctx context.Context, instance *v1alpha1.RedisInstance) (login, error) {
	name := instance.Spec.External.AdminCredentials.SecretName
	admin, err := s.readCredentials(ctx, instance.Namespace, name)
	if err != nil {
		return login{}, err
	}
	at := endpoint(instance)
	in := login{target: redisadmin.Target{Address: address(at), Username: admin.username, Password: admin.password}}
	if at.TLS == v1alpha1.TLSDisabled {
		return in, nil
	}
	in.ca = admin.ca
	in.target.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: at.Host}
	if len(in.ca) > 0 {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(in.ca) {
			return login{}, invalidCredentials("Entry %s of Secret %s has no certificate. Write the authority's certificate as PEM, or remove the entry.", entryCA, name)
		}
		in.target.TLS.RootCAs = roots
	}
	return in, nil
}

func (s *servers) login(ctx context.Context, instance *v1alpha1.RedisInstance) (login, error) {
	if instance.Spec.Mode == v1alpha1.ModeExternal {
		return s.externalLogin(ctx, instance)
	}
	return s.managedLogin(ctx, instance)
}

func (s *servers) connect(ctx context.Context, in login) (*redisadmin.Client, error) {
	server, err := s.connector.Connect(ctx, in.target)
	if err != nil {
		return nil, serverProblem(err)
	}
	return server, nil
}

// serverProblem is the reason in which an error of the server ends up.
func serverProblem(err error) error {
	var known *unavailableError
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, redisadmin.ErrCredentials):
		return &unavailableError{v1alpha1.ReasonCredentialsInvalid, "The server refuses the operator's user or password: " + err.Error()}
	case errors.Is(err, redisadmin.ErrDenied):
		return &unavailableError{v1alpha1.ReasonCredentialsInvalid, "The operator's user lacks a right on the server: " + err.Error()}
	case errors.Is(err, redisadmin.ErrCertificate):
		return invalidCertificate("%v. Put the authority that issued it into ca.crt, or let the server show a certificate that is valid now and for its host.", err)
	case errors.Is(err, redisadmin.ErrLoading):
		return &unavailableError{v1alpha1.ReasonUnreachable, "The server is still loading its data."}
	case errors.Is(err, redisadmin.ErrUnreachable):
		return &unavailableError{v1alpha1.ReasonUnreachable, "The server does not answer: " + err.Error()}
	default:
		return &unavailableError{v1alpha1.ReasonProgramFailed, "The server refused a command of the operator: " + err.Error()}
	}
}

func address(at v1alpha1.Endpoint) string {
	return net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port)))
}
