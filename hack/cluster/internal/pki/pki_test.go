// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestHandshake lets a server and a client with issued certificates meet; the
// client takes its own out of a kubeconfig file.
func TestHandshake(t *testing.T) {
	dir := t.TempDir()
	a, err := NewAuthority(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Serving("server", []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	authority, err := os.ReadFile(a.CertFile())
	if err != nil || !roots.AppendCertsFromPEM(authority) {
		t.Fatal("the authority's certificate cannot be read:", err)
	}
	serving, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	var user string
	var groups []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		subject := r.TLS.PeerCertificates[0].Subject
		user, groups = subject.CommonName, subject.Organization
	}))
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{serving}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	server.StartTLS()
	defer server.Close()

	file := filepath.Join(dir, "kubeconfig")
	if err := a.Kubeconfig(file, "test", server.URL, "system:node:n", "system:nodes"); err != nil {
		t.Fatal(err)
	}
	client := readKubeconfig(t, file)
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	if user != "system:node:n" || len(groups) != 1 || groups[0] != "system:nodes" {
		t.Errorf("the server saw the user %q in %q", user, groups)
	}
	for _, secret := range []string{file, filepath.Join(dir, "server.key")} {
		if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", secret, info.Mode(), err)
		}
	}
}

func readKubeconfig(t *testing.T, file string) *http.Client {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Authority []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Cert []byte `json:"client-certificate-data"`
				Key  []byte `json:"client-key-data"`
			}
		}
	}
	if err := json.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	own, err := tls.X509KeyPair(config.Users[0].User.Cert, config.Users[0].User.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.Clusters[0].Cluster.Authority)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}},
	}}
}
