// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki issues the certificates of a local cluster and writes the
// kubeconfig files that use them.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime outlasts any local cluster. The start lies in the past for clocks
// that step back a little.
const (
	lifetime = 365 * 24 * time.Hour
	backdate = time.Hour
)

// Authority signs the cluster's certificates. Its key never reaches the disk.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
	now  time.Time
}

// NewAuthority makes an authority that writes into the folder dir.
func NewAuthority(dir string, now time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	a := &Authority{dir: dir, key: key, now: now}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "lockstead-local-cluster"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, os.WriteFile(a.CertFile(), a.pem, 0o644)
}

// CertFile is the file of the authority's own certificate.
func (a *Authority) CertFile() string { return filepath.Join(a.dir, "ca.crt") }

// Serving issues NAME.crt and NAME.key for a server.
func (a *Authority) Serving(name string, dns []string, ips []net.IP) error {
	cert, key, err := a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    dns,
		IPAddresses: ips,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	return a.writePair(name, cert, key)
}

// Client issues NAME.crt and NAME.key for a client of the API server, which
// takes the user's name and groups from the certificate.
func (a *Authority) Client(name, user string, groups ...string) error {
	cert, key, err := a.client(user, groups)
	if err != nil {
		return err
	}
	return a.writePair(name, cert, key)
}

// SigningKey writes a key pair that signs no certificates: NAME.key and NAME.pub.
func (a *Authority) SigningKey(name string) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if err := os.WriteFile(filepath.Join(a.dir, name+".key"), private, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.dir, name+".pub"), public, 0o644)
}

func (a *Authority) client(user string, groups []string) (cert, key []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *Authority) issue(template *x509.Certificate) (cert, key []byte, err error) {
	private, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	template.NotBefore, template.NotAfter = a.now.Add(-backdate), a.now.Add(lifetime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("issue a certificate for %s: %w", template.Subject.CommonName, err)
	}
	key, err = encodeKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, err
}

func (a *Authority) writePair(name string, cert, key []byte) error {
	if err := os.WriteFile(filepath.Join(a.dir, name+".key"), key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.dir, name+".crt"), cert, 0o644)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
