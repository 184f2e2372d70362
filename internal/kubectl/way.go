// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/binding"
)

// way is how a Redis server is reached from where the command runs.
type way struct {
	// pod is that of a managed server, reached through the API server, in namespace.
	namespace, pod string
	port           int
	// address is host:port of a server that is reached directly.
	address string
	// given says that the user gave the address.
	given bool
}

func (w way) String() string {
	switch {
	case w.pod != "":
		return fmt.Sprintf("the Redis server in pod %s/%s, by port-forward", w.namespace, w.pod)
	case w.given:
		return "the Redis server at --redis-address " + w.address
	}
	return "the Redis server at " + w.address
}

// leases is the way to Leases.
type leases struct{ server string }

func (l leases) String() string { return "the API server at " + l.server }

// remedyOf says what to do when the way leads nowhere.
func remedyOf(w fmt.Stringer) string {
	switch w := w.(type) {
	case way:
		switch {
		case w.pod != "":
			return "see whether the pod is ready with kubectl lockstead status -A, and whether you may create pods/portforward in namespace " + w.namespace
		case w.given:
			return "check the address, or leave out --redis-address"
		}
		return "run the command where the server can be reached, or open a tunnel to it and give --redis-address host:port"
	default:
		return "check the network, or choose another cluster with --context"
	}
}

// wayTo chooses the way to the server of a binding. The server of a managed RedisInstance is known by the name of its Service, so that
// the user needs no right to read RedisInstances.
func wayTo(instance *v1alpha1.BoundInstance, r *binding.Redis, address string) way {
	if address != "" {
		return way{address: address, given: true}
	}
	if instance != nil {
		if service := instance.Name + "-redis." + instance.Namespace + ".svc"; r.Host == service || strings.HasPrefix(r.Host, service+".") {
			return way{namespace: instance.Namespace, pod: instance.Name + "-redis-0", port: r.Port}
		}
	}
	return way{address: r.Address()}
}

// connectTimeout bounds one connection, from the request to the end of the TLS handshake. A port-forward is several round trips to the API server.
const connectTimeout = 15 * time.Second

// connect makes a connection without TLS.
func (w way) connect(ctx context.Context, config *rest.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if w.pod != "" {
		return forward(ctx, config, w.namespace, w.pod, w.port)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", w.address) //nolint:wrapcheck // It names the address.
}

// secure does the TLS handshake as the application does it, whatever the way.
func secure(ctx context.Context, conn net.Conn, r *binding.Redis) (net.Conn, error) {
	if !r.TLS {
		return conn, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	config := &tls.Config{ServerName: r.Host, MinVersion: tls.VersionTLS12}
	if len(r.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(r.CA) {
			_ = conn.Close()
			return nil, fmt.Errorf("entry %q of the binding Secret contains no certificate in PEM form", binding.KeyCA)
		}
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS handshake: %w", err), conn.Close())
	}
	return secured, nil
}
