// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiservertest runs a real kube-apiserver with its etcd for tests, on loopback ports that were free. One server serves a whole test
// binary: start it in TestMain, give each test a namespace of its own, and stop it at the end.
package apiservertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
)

// Server is a running API server.
type Server struct {
	dir    string
	config *rest.Config
	procs  []*process // in the order in which they were started
}

// startTimeout is far more than a healthy start takes on a busy machine.
const startTimeout = 2 * time.Minute

// Start starts etcd and kube-apiserver and returns when the API is ready. The caller stops the server.
func Start(ctx context.Context) (_ *Server, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	assets, err := findAssets(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lockstead-apiserver-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	etcdURL := "http://127.0.0.1:" + ports[0]
	peerURL := "http://127.0.0.1:" + ports[1]
	if err := s.run(filepath.Join(assets, "etcd"),
		"--data-dir="+filepath.Join(dir, "etcd"), "--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=default="+peerURL,
		"--unsafe-no-fsync", "--log-level=warn",
	); err != nil {
		return nil, err
	}
	token, err := s.writeCredentials()
	if err != nil {
		return nil, err
	}
	if err := s.run(filepath.Join(assets, "kube-apiserver"),
		"--etcd-servers="+etcdURL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+ports[2],
		"--cert-dir="+filepath.Join(dir, "certs"), "--authorization-mode=RBAC", "--token-auth-file="+filepath.Join(dir, "tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+filepath.Join(dir, "sa.pem"),
		"--service-account-signing-key-file="+filepath.Join(dir, "sa.pem"), "--service-cluster-ip-range=10.0.0.0/24",
		"--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount",
	); err != nil {
		return nil, err
	}
	s.config = &rest.Config{Host: "https://127.0.0.1:" + ports[2], BearerToken: token}
	if err := s.awaitReady(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Config is for the administrator. Each call returns a copy.
func (s *Server) Config() *rest.Config { return rest.CopyConfig(s.config) }

// Address is the server's "host:port".
func (s *Server) Address() string { return s.config.Host[len("https://"):] }

// Stop ends the API server, then etcd, and removes their files.
func (s *Server) Stop() error {
	var problems []error
	for _, p := range slices.Backward(s.procs) {
		problems = append(problems, p.stop())
	}
	return errors.Join(append(problems, os.RemoveAll(s.dir))...)
}

// writeCredentials makes the administrator's token and the key that signs the tokens of service accounts.
func (s *Server) writeCredentials() (token string, err error) {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	token = hex.EncodeToString(raw[:])
	if err := os.WriteFile(filepath.Join(s.dir, "tokens.csv"), []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return "", err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return token, os.WriteFile(filepath.Join(s.dir, "sa.pem"), text, 0o600)
}

// awaitReady polls: a server that is starting has no other way to tell.
func (s *Server) awaitReady(ctx context.Context) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		for _, p := range s.procs {
			select {
			case <-p.ended:
				return fmt.Errorf("%s ended: %w\n%s", p.name, p.err, p.logTail())
			default:
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver is not ready in time: %w\n%s", err, s.procs[len(s.procs)-1].logTail())
		}
	}
}

func (s *Server) ready(ctx context.Context) error {
	// The server signs its certificate itself when it starts.
	ca, err := os.ReadFile(filepath.Join(s.dir, "certs", "apiserver.crt"))
	if err != nil {
		return err
	}
	s.config.CAData = ca
	client, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", response.Status)
	}
	return nil
}

// freePorts returns ports that were free a moment ago, all different.
func freePorts(ctx context.Context, n int) ([]string, error) {
	ports := make([]string, 0, n)
	for range n {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// Kept open until all are known, so that no port comes twice.
		defer listener.Close()
		ports = append(ports, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}
