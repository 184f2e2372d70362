// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

// probeInterval is short because a person waits, probeTimeout because a probe
// that hangs must not hold up the next one.
const (
	probeInterval = 100 * time.Millisecond
	probeTimeout  = 2 * time.Second
)

// prober asks the components whether they work.
type prober struct {
	http *http.Client
	dns  *net.Resolver
	node string
}

func newProber(dir state.Dir) (prober, error) {
	authority, err := os.ReadFile(dir.Path("pki", "ca.crt"))
	if err != nil {
		return prober{}, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	own, err := tls.LoadX509KeyPair(dir.Path("pki", adminUser+".crt"), dir.Path("pki", adminUser+".key"))
	if err != nil {
		return prober{}, err
	}
	return prober{
		http: &http.Client{
			Timeout:   probeTimeout,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}},
		},
		dns: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, network, net.JoinHostPort(bridgeNet.Addr().String(), "53"))
		}},
		node: dir.NodeName(),
	}, nil
}

// get returns the body when the answer is 200.
func (p prober) get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := p.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return body, err
}

func (p prober) api(ctx context.Context, path string) ([]byte, error) {
	return p.get(ctx, "https://"+net.JoinHostPort(nodeNet.Addr().String(), apiServerPort)+path)
}

func (p prober) apiServerReady(ctx context.Context) bool {
	_, err := p.api(ctx, "/readyz")
	return err == nil
}

func (p prober) etcdReady(ctx context.Context) bool {
	_, err := p.get(ctx, etcdClient+"/health")
	return err == nil
}

func (p prober) kubeProxyReady(ctx context.Context) bool {
	_, err := p.get(ctx, "http://127.0.0.1:10256/healthz")
	return err == nil
}

func (p prober) dnsReady(ctx context.Context) bool {
	addresses, err := p.dns.LookupHost(ctx, "kubernetes.default.svc."+domain+".")
	return err == nil && len(addresses) > 0
}

// serviceAccountReady tells whether pods can be made in the default namespace.
func (p prober) serviceAccountReady(ctx context.Context) bool {
	_, err := p.api(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
	return err == nil
}

func (p prober) nodeReady(ctx context.Context) bool {
	body, err := p.api(ctx, "/api/v1/nodes/"+p.node)
	return err == nil && isReady(body)
}

// isReady reads the Ready condition of an encoded Node, and that nothing keeps
// pods off it: the taint of a new node goes a little later than the condition comes.
func isReady(node []byte) bool {
	var n struct {
		Spec   struct{ Taints []struct{ Key string } }
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if json.Unmarshal(node, &n) != nil || len(n.Spec.Taints) > 0 {
		return false
	}
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}
