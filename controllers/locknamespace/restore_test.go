// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

// forge writes a Secret that looks like the binding of a LockNamespace, as everybody can who may write Secrets in its namespace.
func (a *application) forge(instance *v1alpha1.RedisInstance) {
	a.t.Helper()
	environment.Create(a.t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.object.Namespace, Name: a.object.Name + "-lock",
			Annotations:     map[string]string{"lockstead.dev/redisinstance": instance.Namespace + "/" + instance.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(a.object, v1alpha1.GroupVersion.WithKind("LockNamespace"))},
		},
		StringData: map[string]string{"type": "redis", "instance": string(instance.UID)},
	})
}

// A forged record must not tell that the server knew the LockNamespace: it would have lost its epoch record then, and grant nothing to anybody.
func TestAForgedRecordBringsNobodyIntoQuarantine(t *testing.T) {
	for name, named := range map[string]bool{"the spec names another instance": false, "the spec names the instance": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			instance, server := b.redis()
			innocent := b.application(environment.Namespace(t, nil), "innocent", on(instance))
			innocent.reconcile()
			innocent.wantReady()
			b.examine(instance)
			forger := b.application(environment.Namespace(t, nil), "forger", func(s *v1alpha1.LockNamespaceSpec) {
				s.InstanceRef = &v1alpha1.InstanceReference{Name: "nothing"}
				if named {
					on(instance)(s)
				}
			})
			forger.forge(instance)
			b.address = "" // The record is made, and no more.
			_, _ = forger.try()
			b.address = server.Addr()
			b.examine(instance)
			if until := instance.Status.QuarantineUntil; until != nil {
				t.Fatalf("the RedisInstance grants nothing until %s", until)
			}
			innocent.reconcile()
			innocent.wantReady()
			if !named {
				forger.wantRefused(v1alpha1.ReasonInstanceNotFound)
				if s := forger.object.Status; s.Backend != "" || s.InstanceRef != nil || s.Binding != nil {
					t.Errorf("the forged record was taken over: %+v", s)
				}
				return
			}
			forger.reconcile()
			forger.wantReady()
		})
	}
}

func TestAForgedRecordDoesNotHideLeases(t *testing.T) {
	b := newBench(t)
	instance, _ := b.redis()
	a := b.application(b.namespace, "billing", on(instance))
	held, err := leaseformat.Create(b.namespace, leaseformat.Acquisition{
		Prefix: redisproto.Prefix("lk", b.namespace+"/billing"), Key: "k", ID: strings.Repeat("0a", 16), Duration: time.Minute, Now: time.Unix(1, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	environment.Create(t, held)
	a.forge(instance)
	a.wantRefused(v1alpha1.ReasonLeasesExist)
}

func TestALostStatusIsRestoredFromTheSecret(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	a := b.application(b.namespace, "billing", on(instance))
	a.reconcile()
	a.wantReady()
	want := a.object.Status.DeepCopy()
	password := a.binding().Redis.Password
	a.object.Status = v1alpha1.LockNamespaceStatus{}
	if err := environment.Admin.Status().Update(t.Context(), a.object); err != nil {
		t.Fatal(err)
	}
	a.reconcile()
	a.wantReady()
	if got := a.object.Status; *got.InstanceRef != *want.InstanceRef || got.Prefix != want.Prefix || *got.Binding != *want.Binding {
		t.Errorf("the status is %+v, want %+v", got, want)
	}
	if err := server.Client(t, a.object.Status.Username, password).Ping(t.Context()).Err(); err != nil {
		t.Errorf("the password of before: %v", err)
	}
	a.wantNoWrites()
}
