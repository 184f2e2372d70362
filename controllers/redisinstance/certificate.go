// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// renewalNotice is how long before its end a certificate is called to attention.
const renewalNotice = 7 * 24 * time.Hour

// certificate is what the Secret of a managed server has.
type certificate struct {
	secret        string
	leaf          *x509.Certificate
	intermediates *x509.CertPool
	ca            []byte
	roots         *x509.CertPool
}

func invalidCertificate(format string, args ...any) error {
	return &unavailableError{v1alpha1.ReasonCertificateInvalid, fmt.Sprintf(format, args...)}
}

// certificateOf reads the certificate of a managed server with this host. The error says what is wrong with the Secret at any time.
func certificateOf(secret *corev1.Secret, host string) (certificate, error) {
	for _, entry := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, entryCA} {
		if len(secret.Data[entry]) == 0 {
			return certificate{}, invalidCertificate("Secret %s has no entry %s. It needs tls.crt, tls.key and ca.crt, as cert-manager writes them.", secret.Name, entry)
		}
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return certificate{}, invalidCertificate("Entries tls.crt and tls.key of Secret %s cannot be used: %v. Issue the certificate anew.", secret.Name, err)
	}
	found := certificate{secret: secret.Name, leaf: pair.Leaf, intermediates: x509.NewCertPool(), ca: secret.Data[entryCA], roots: x509.NewCertPool()}
	for _, raw := range pair.Certificate[1:] {
		if intermediate, err := x509.ParseCertificate(raw); err == nil {
			found.intermediates.AddCert(intermediate)
		}
	}
	if !found.roots.AppendCertsFromPEM(found.ca) {
		return certificate{}, invalidCertificate("Entry ca.crt of Secret %s has no certificate. Write the authority's certificate as PEM.", secret.Name)
	}
	if err := found.leaf.VerifyHostname(host); err != nil {
		return certificate{}, invalidCertificate("The certificate in Secret %s is not valid for %s, which applications connect to. Issue it anew with that DNS name.", secret.Name, host)
	}
	return found, nil
}

// verify says what is wrong with the certificate now.
func (c certificate) verify(now time.Time) error {
	if now.After(c.leaf.NotAfter) {
		return invalidCertificate("The certificate in Secret %s ended at %s. Renew it.", c.secret, clockTime(c.leaf.NotAfter))
	}
	_, err := c.leaf.Verify(x509.VerifyOptions{
		Roots: c.roots, Intermediates: c.intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return invalidCertificate("The certificate in Secret %s cannot be verified with its ca.crt: %v. Write the authority that issued it into ca.crt, or issue the certificate anew.", c.secret, err)
	}
	return nil
}

// withAuthorities is the bundle of the certificates in both, each once. What is not a certificate is left out.
func withAuthorities(ca, others []byte) []byte {
	var bundle []byte
	seen := map[string]bool{}
	for _, text := range [][]byte{ca, others} {
		for {
			var block *pem.Block
			if block, text = pem.Decode(text); block == nil {
				break
			}
			if block.Type == "CERTIFICATE" && !seen[string(block.Bytes)] {
				seen[string(block.Bytes)] = true
				bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
			}
		}
	}
	return bytes.Clone(bundle)
}

// shown is what was found of the certificate that a server shows.
type shown struct {
	notAfter time.Time
	// soon: it ends within renewalNotice.
	soon bool
	// renewed is the Secret that has a newer one, which the server does not show yet; empty is none.
	renewed string
}

// certificateCondition says whether connections to a server are secured. It is nil for one that is reached in the clear.
func certificateCondition(o observation) *metav1.Condition {
	if !o.secured {
		return nil
	}
	c := &metav1.Condition{Type: v1alpha1.ConditionTLSReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCertificateValid}
	switch {
	case o.unavailable != nil && o.unavailable.reason == v1alpha1.ReasonCertificateInvalid:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonCertificateInvalid, o.unavailable.message
		return c
	case o.shown == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnverified, "The server was not reached, so its certificate was not seen."
		return c
	case o.shown.soon:
		c.Reason = v1alpha1.ReasonCertificateExpiresSoon
		c.Message = fmt.Sprintf("The certificate of the server is valid until %s. Renew it.", clockTime(o.shown.notAfter))
	default:
		c.Message = fmt.Sprintf("The certificate of the server is valid until %s.", clockTime(o.shown.notAfter))
	}
	if o.shown.renewed != "" {
		c.Message += fmt.Sprintf(" The newer one in Secret %s is used as soon as the kubelet has written it into the pod, which takes up to two minutes.", o.shown.renewed)
	}
	return c
}

func clockTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }
