// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func TestCertificateIsReloadedOnARunningServer(t *testing.T) {
	const name = "locks-redis.system.svc"
	dir, authority := t.TempDir(), redistest.NewAuthority(t)
	first := authority.Issue(t, name, time.Hour)
	first.Write(t, dir)
	server := redistest.Start(t, &redistest.Options{Certificates: dir})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(first.CA)
	target := redisadmin.Target{
		Address: server.Addr(), Username: "admin", Password: server.AdminPassword(),
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, RootCAs: roots},
	}
	connect := func() *redisadmin.Client {
		t.Helper()
		client, err := redisadmin.NewConnector(nil).Connect(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
	client := connect()
	old := client.Certificate()
	if old == nil || old.DNSNames[0] != name {
		t.Fatalf("the server shows %v", old)
	}

	// A key that does not belong to the certificate is refused, and the server goes on.
	broken := authority.Issue(t, name, time.Hour)
	broken.Key = first.Key
	broken.Write(t, dir)
	if err := client.ReloadCertificates(t.Context()); err == nil || !redisadmin.IsRefusal(err) {
		t.Errorf("a key of another certificate: %v", err)
	}
	if shown := connect().Certificate(); !shown.Equal(old) {
		t.Error("the server shows another certificate after it refused one")
	}

	authority.Issue(t, name, time.Hour).Write(t, dir)
	if shown := connect().Certificate(); !shown.Equal(old) {
		t.Fatal("the server shows a new certificate without being told")
	}
	if err := client.ReloadCertificates(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shown := connect().Certificate(); shown.Equal(old) {
		t.Error("the server still shows the old certificate")
	}
	if _, err := client.Probe(t.Context()); err != nil {
		t.Errorf("a connection from before: %v", err)
	}

	redistest.NewAuthority(t).Issue(t, name, time.Hour).Write(t, dir)
	if err := client.ReloadCertificates(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := redisadmin.NewConnector(nil).Connect(t.Context(), target); !errors.Is(err, redisadmin.ErrCertificate) {
		t.Errorf("a certificate of another authority: %v", err)
	}
}
