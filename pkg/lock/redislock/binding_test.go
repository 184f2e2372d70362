// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// rotate replaces the tenant's password, and ends its connections so that the next request needs a new one.
func rotate(t *testing.T, admin *redis.Client, password string) {
	t.Helper()
	user := tenantUser("lk:{test/*}:", binding.AccessFunctions)
	user.PasswordHashes = []string{redisproto.PasswordHash(password)}
	args, err := user.SetUserArgs()
	if err != nil {
		t.Fatal(err)
	}
	command := []any{"acl", "setuser"}
	for _, arg := range args {
		command = append(command, arg)
	}
	if err := admin.Do(t.Context(), command...).Err(); err != nil {
		t.Fatal(err)
	}
	if err := admin.Do(t.Context(), "client", "kill", "user", tenantName).Err(); err != nil {
		t.Fatal(err)
	}
}

func withPassword(b *binding.Binding, password string) *binding.Binding {
	changed, server := *b, *b.Redis
	server.Password = password
	changed.Redis = &server
	return &changed
}

func TestRotatedPasswordIsUsedFromTheNextConnectionOn(t *testing.T) {
	for name, reloads := range map[string]bool{"read again": true, "told": false} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t, binding.AccessFunctions)
			admin := server.Admin(t)
			first := tenantBinding(t, server.Addr(), binding.AccessFunctions)
			mounted := make(chan *binding.Binding, 1)
			mounted <- first
			options := &redislock.Options{}
			if reloads {
				options.Reload = func() (*binding.Binding, error) {
					b := <-mounted
					mounted <- b
					return b, nil
				}
			}
			d, err := redislock.FromBinding(first, options)
			if err != nil {
				t.Fatal(err)
			}
			closeWithTest(t, d)
			mustAcquire(t, d, request("order:1"))
			rotate(t, admin, "next")
			// Until the new one is known, the old one is refused in words.
			eventually(t, "refusal of the old password", func() bool {
				_, err := d.Acquire(t.Context(), request("order:2"))
				return err != nil && strings.Contains(err.Error(), redislock.ReasonAuthentication)
			})
			_, err = d.Subscribe(t.Context(), lockKey("order:1"))
			wantFault(t, err, driver.ErrUnavailable, redislock.ReasonAuthentication)
			<-mounted
			mounted <- withPassword(first, "next")
			if !reloads {
				d.Update(withPassword(first, "next"))
			}
			mustAcquire(t, d, request("order:3"))
			mustSubscribe(t, d, "order:3")
		})
	}
}

func TestAnotherBackendEndsTheDriver(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	first := tenantBinding(t, server.Addr(), binding.AccessFunctions)
	elsewhere := withPassword(first, tenantPassword)
	elsewhere.Instance = "uid-2"

	d := openTenant(t, server.Addr(), binding.AccessFunctions, nil)
	held := request("order:1")
	mustAcquire(t, d, held)
	d.Update(elsewhere)
	// It is final.
	d.Update(first)
	_, err := d.Acquire(t.Context(), request("order:2"))
	wantIs(t, err, driver.ErrBackendChanged)
	_, err = d.Renew(t.Context(), renew(held))
	wantIs(t, err, driver.ErrBackendChanged)
	wantIs(t, d.Release(t.Context(), release(held)), driver.ErrBackendChanged)
	_, err = d.Inspect(t.Context(), held.Key)
	wantIs(t, err, driver.ErrBackendChanged)
	_, err = d.Subscribe(t.Context(), held.Key)
	wantIs(t, err, driver.ErrBackendChanged)

	reloads, err := redislock.FromBinding(first, &redislock.Options{Reload: func() (*binding.Binding, error) { return elsewhere, nil }})
	if err != nil {
		t.Fatal(err)
	}
	closeWithTest(t, reloads)
	for range 2 {
		_, err = reloads.Acquire(t.Context(), request("order:2"))
		wantIs(t, err, driver.ErrBackendChanged)
	}
}

func TestABindingThatCannotBeReadAgainIsNoReasonToStop(t *testing.T) {
	server := startServer(t, binding.AccessFunctions)
	d := openTenant(t, server.Addr(), binding.AccessFunctions, &redislock.Options{Reload: func() (*binding.Binding, error) { return binding.Load(t.TempDir()) }})
	mustAcquire(t, d, request("order:1"))
}

func TestBindingsAndOptionsThatCannotWorkAreRefused(t *testing.T) {
	lease := &binding.Binding{
		Type: binding.TypeLease, LockNamespace: "a/b", Prefix: "lk:{a/b}:", Instance: "cluster", TTLDefault: time.Second, TTLMax: time.Hour, Lease: &binding.Lease{},
	}
	for name, b := range map[string]*binding.Binding{"Leases": lease, "no host": withPassword(tenantBinding(t, ":1", binding.AccessFunctions), "secret")} {
		if d, err := redislock.FromBinding(b, nil); err == nil {
			_ = d.Close()
			t.Errorf("%s: was accepted", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error shows the password: %v", name, err)
		}
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { _ = client.Close() }()
	for name, o := range map[string]struct {
		options redislock.Options
		names   string
	}{
		"access":              {redislock.Options{Access: "magic"}, "Options.Access"},
		"attempt":             {redislock.Options{AttemptTimeout: -1}, "Options.AttemptTimeout"},
		"health":              {redislock.Options{HealthInterval: -1}, "Options.HealthInterval"},
		"idle":                {redislock.Options{SubscriptionIdle: -1}, "Options.SubscriptionIdle"},
		"negative TTL":        {redislock.Options{MaxTTL: -time.Second}, "Options.MaxTTL"},
		"TTL with a fraction": {redislock.Options{MaxTTL: time.Second + 1}, "Options.MaxTTL"},
	} {
		_, err := redislock.New(client, &o.options)
		if refused, ok := errors.AsType[*driver.OptionError](err); !ok || refused.Option != o.names {
			t.Errorf("%s: error is %v, want a *driver.OptionError for %s", name, err, o.names)
		}
	}
	_, err := redislock.New(nil, nil)
	if refused, ok := errors.AsType[*driver.OptionError](err); !ok || refused.Option != "client" {
		t.Errorf("no client: error is %v, want a *driver.OptionError for client", err)
	}
}

// authority signs certificates of servers.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key, der := sign(t, template, nil, nil)
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// sign makes a key and its certificate, signed by parent, or by itself.
func sign(t *testing.T, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

// writeServer writes certificate and key of a server on the loopback address.
func (a authority) writeServer(t *testing.T, dir string) (certificate, key string) {
	t.Helper()
	private, der := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.certificate, a.key)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

// startSecure starts a server with TLS on a second port, for the tenant, and returns how to give it a certificate of an authority.
func startSecure(t *testing.T) (server *secureServer, serve func(authority)) {
	t.Helper()
	dir := t.TempDir()
	certificate, key := newAuthority(t).writeServer(t, dir)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server = &secureServer{secure: listener.Addr().String()}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	server.Server = redistest.Start(t, &redistest.Options{
		Config: []string{
			"tls-port " + strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), "tls-cert-file " + certificate, "tls-key-file " + key, "tls-auth-clients no",
		},
		Users: []redisproto.User{tenantUser(prefix, binding.AccessFunctions)},
	})
	server.Prepare(t, prefix, epoch)
	admin := server.Admin(t)
	return server, func(a authority) {
		a.writeServer(t, dir)
		// Setting both at once reads the files anew.
		if err := admin.Do(t.Context(), "config", "set", "tls-cert-file", certificate, "tls-key-file", key).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTLS(t *testing.T) {
	trusted, stranger := newAuthority(t), newAuthority(t)
	server, serve := startSecure(t)
	secure := server.secure
	serve(trusted)
	withCA := func(address string, ca []byte) *binding.Binding {
		b := tenantBinding(t, address, binding.AccessFunctions)
		b.Redis.TLS, b.Redis.CA = true, ca
		return b
	}
	for name, b := range map[string]*binding.Binding{
		"the certificate of a stranger": withCA(secure, stranger.pem),
		"no certificate in the binding": withCA(secure, []byte("nothing")),
		"a server without TLS":          withCA(server.Addr(), trusted.pem),
	} {
		d, err := redislock.FromBinding(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = d.Acquire(t.Context(), request("order:1")); err == nil {
			t.Errorf("%s: a lock was granted", name)
		} else {
			wantFault(t, err, driver.ErrUnavailable, redislock.ReasonConnect, redislock.ReasonTimeout)
		}
		// The right certificate is used from the next connection on.
		d.Update(withCA(secure, trusted.pem))
		mustAcquire(t, d, request("order of "+name))
		mustSubscribe(t, d, "order:1")
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
