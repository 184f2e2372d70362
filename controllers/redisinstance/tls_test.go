// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

const year = 365 * 24 * time.Hour

func securedManaged() v1alpha1.RedisInstanceSpec {
	spec := managed()
	spec.Managed.TLS = &v1alpha1.ManagedTLS{Mode: v1alpha1.ManagedTLSSecret, SecretName: "locks-tls"}
	return spec
}

// certificate writes a certificate into the Secret of the managed server.
func (b *bench) certificate(c redistest.Certificate) {
	b.t.Helper()
	data := map[string][]byte{"tls.crt": c.Certificate, "tls.key": c.Key, "ca.crt": c.CA}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "locks-tls"}, Data: data}
	if !b.exists(&corev1.Secret{}, "locks-tls") {
		environment.Create(b.t, secret)
		return
	}
	environment.Get(b.t, secret)
	secret.Data = data
	if err := environment.Admin.Update(b.t.Context(), secret); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) host() string { return "locks-redis." + b.namespace + ".svc" }

// securedPod runs the managed server with TLS, and returns the folder that stands for the volume of its certificate.
func (b *bench) securedPod(c redistest.Certificate) (*redistest.Server, string) {
	b.t.Helper()
	volume := b.t.TempDir()
	c.Write(b.t, volume)
	return b.startPod(func(o *redistest.Options) { o.Certificates = volume }), volume
}

func TestACertificateIsRenewedWithoutARestart(t *testing.T) {
	b := newBench(t, securedManaged())
	authority := redistest.NewAuthority(t)
	first := authority.Issue(t, b.host(), year)
	b.certificate(first)
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonPodNotReady)
	b.wantCondition(v1alpha1.ConditionTLSReady, metav1.ConditionUnknown, v1alpha1.ReasonUnverified)
	server, volume := b.securedPod(first)
	b.reconcile()
	b.wantReady()
	message := b.wantCondition(v1alpha1.ConditionTLSReady, metav1.ConditionTrue, v1alpha1.ReasonCertificateValid).Message
	if b.instance.Status.Endpoint.TLS != v1alpha1.TLSVerify || !strings.Contains(message, "valid until 20") {
		t.Errorf("endpoint %+v, message %q", b.instance.Status.Endpoint, message)
	}
	b.wantNoWrites()
	run := b.instance.Status.RunID

	a := b.application("billing")
	grant, err := b.tenants.Program(t.Context(), b.instance, a.tenant())
	if err != nil || !grant.Server.TLS || !bytes.Equal(grant.Server.CA, first.CA) {
		t.Fatalf("the binding has TLS %t, CA\n%s\n%v", grant.Server.TLS, grant.Server.CA, err)
	}

	// The kubelet has not written the new certificate into the pod yet.
	second := authority.Issue(t, b.host(), year+time.Hour)
	b.certificate(second)
	result := b.reconcile()
	b.wantReady()
	if message := b.wantCondition(v1alpha1.ConditionTLSReady, metav1.ConditionTrue, v1alpha1.ReasonCertificateValid).Message; !strings.Contains(message, "Secret locks-tls") {
		t.Errorf("message is %q", message)
	}
	if result.RequeueAfter > 10*time.Second {
		t.Errorf("the next look is in %s", result.RequeueAfter)
	}
	b.wantNoWrites()
	second.Write(t, volume)
	b.reconcile()
	if now := b.wantCondition(v1alpha1.ConditionTLSReady, metav1.ConditionTrue, v1alpha1.ReasonCertificateValid).Message; strings.Contains(now, "Secret") || now == message {
		t.Errorf("message is %q", now)
	}
	b.wantNoWrites()

	// One of another authority: operator and applications trust both until the server shows it.
	third := redistest.NewAuthority(t).Issue(t, b.host(), 6*24*time.Hour)
	b.certificate(third)
	b.reconcile()
	b.wantReady()
	grant, err = b.tenants.Program(t.Context(), b.instance, a.tenant())
	if err != nil || !bytes.Equal(grant.Server.CA, append(bytes.Clone(third.CA), second.CA...)) {
		t.Errorf("the binding has CA\n%s\n%v", grant.Server.CA, err)
	}
	third.Write(t, volume)
	b.reconcile()
	b.wantReady()
	b.wantCondition(v1alpha1.ConditionTLSReady, metav1.ConditionTrue, v1alpha1.ReasonCertificateExpiresSoon)
	grant, err = b.tenants.Program(t.Context(), b.instance, a.tenant())
	if err != nil || !bytes.Equal(grant.Server.CA, third.CA) {
		t.Errorf("the binding has CA\n%s\n%v", grant.Server.CA, err)
	}
	b.wantNoWrites()
	if err := server.Admin(t).Ping(t.Context()).Err(); err != nil || b.instance.Status.RunID != run {
		t.Errorf("the server was restarted: %v", err)
	}
	for _, secret := range []redistest.Certificate{first, second, third} {
		if key := strings.Split(string(secret.Key), "\n")[1]; strings.Contains(b.told.String(), key) {
			t.Error("a key was told")
		}
	}
}

func TestWhatIsWrongWithACertificateIsSaidBeforeThePodHasIt(t *testing.T) {
	b := newBench(t, securedManaged())
	authority := redistest.NewAuthority(t)
	good, other := authority.Issue(t, b.host(), year), redistest.NewAuthority(t)
	refused := func(what, want string) {
		t.Helper()
		b.reconcile()
		message := b.wantUnavailable(v1alpha1.ReasonCertificateInvalid)
		b.wantCondition(v1alpha1.ConditionTLSReady, metav1.ConditionFalse, v1alpha1.ReasonCertificateInvalid)
		if !strings.Contains(message, want) || !strings.Contains(message, "locks-tls") {
			t.Errorf("%s: message %q does not contain %q", what, message, want)
		}
		b.wantNoWrites()
	}
	refused("no Secret", "does not exist")
	for what, tc := range map[string]struct {
		certificate redistest.Certificate
		want        string
	}{
		"no key":               {redistest.Certificate{Certificate: good.Certificate, CA: good.CA}, "no entry tls.key"},
		"no authority":         {redistest.Certificate{Certificate: good.Certificate, Key: good.Key}, "no entry ca.crt"},
		"no PEM":               {redistest.Certificate{Certificate: []byte("x"), Key: good.Key, CA: good.CA}, "tls.crt"},
		"another key":          {redistest.Certificate{Certificate: good.Certificate, Key: authority.Issue(t, b.host(), year).Key, CA: good.CA}, "private key does not match"},
		"another authority":    {redistest.Certificate{Certificate: good.Certificate, Key: good.Key, CA: other.Issue(t, "x", year).CA}, "cannot be verified"},
		"broken authority":     {redistest.Certificate{Certificate: good.Certificate, Key: good.Key, CA: []byte("x")}, "ca.crt of Secret"},
		"another host":         {authority.Issue(t, "elsewhere.example.com", year), "not valid for locks-redis."},
		"the end of last hour": {authority.Issue(t, b.host(), -time.Minute), "Renew it"},
	} {
		b.certificate(tc.certificate)
		refused(what, tc.want)
	}
	b.certificate(good)
	b.reconcile()
	b.wantUnavailable(v1alpha1.ReasonPodNotReady)
	b.securedPod(good)
	b.reconcile()
	b.wantReady()

	// A server that runs goes on with the certificate that it has.
	b.certificate(redistest.Certificate{Certificate: []byte("x"), Key: good.Key, CA: good.CA})
	refused("broken later", "tls.crt")
	b.certificate(good)
	b.reconcile()
	b.wantReady()

	b.change(func(m *v1alpha1.ManagedServer) { m.TLS = nil })
	b.reconcile()
	if condition := meta.FindStatusCondition(b.instance.Status.Conditions, v1alpha1.ConditionTLSReady); condition != nil {
		t.Errorf("in the clear there is a condition %+v", condition)
	}
}

func TestExternalServersOverTLS(t *testing.T) {
	authority, volume := redistest.NewAuthority(t), t.TempDir()
	certificate := authority.Issue(t, "redis.example.com", year)
	certificate.Write(t, volume)
	server := redistest.Start(t, &redistest.Options{Certificates: volume})
	spec := external()
	spec.External.TLS.Mode = v1alpha1.TLSVerify
	b := newBench(t, spec)
	b.address = server.Addr()
	b.secret("admin", map[string]string{"username": "admin", "password": server.AdminPassword(), "ca.crt": string(redistest.NewAuthority(t).Issue(t, "x", year).CA)})
	b.reconcile()
	if message := b.wantUnavailable(v1alpha1.ReasonCertificateInvalid); !strings.Contains(message, "ca.crt") {
		t.Errorf("message is %q", message)
	}
	b.wantCondition(v1alpha1.ConditionTLSReady, metav1.ConditionFalse, v1alpha1.ReasonCertificateInvalid)
	b.wantNoWrites()
	secret := b.getSecret("admin")
	secret.Data["ca.crt"] = certificate.CA
	if err := environment.Admin.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.wantReady()
	b.wantCondition(v1alpha1.ConditionTLSReady, metav1.ConditionTrue, v1alpha1.ReasonCertificateValid)
	b.wantNoWrites()
}
