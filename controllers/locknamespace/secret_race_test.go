// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// meanwhile does something right before a write of the operator, once.
func (b *bench) meanwhile(write string, do func()) {
	var once sync.Once
	b.writes.Fail(func(sent string) error {
		if sent == write {
			once.Do(do)
		}
		return nil
	})
}

func (b *bench) foreignSecret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "billing-lock"}, StringData: map[string]string{"password": "somebody else's"},
	}
}

// A Secret of somebody else that appears between the look and the write is not overwritten, whether there was one before or not.
func TestASecretThatAppearsMeanwhileIsNotOverwritten(t *testing.T) {
	for name, existed := range map[string]bool{"first": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			instance, _ := b.redis()
			a := b.application(b.namespace, "billing", on(instance))
			write, theirs := "create *v1.Secret", b.foreignSecret()
			if existed {
				write = "patch *v1.Secret"
				a.reconcile()
				update(t, a.object, func(lns *v1alpha1.LockNamespace) { lns.Spec.Credentials.RotationCounter = 1 })
			}
			b.meanwhile(write, func() {
				if existed {
					remove(t, a.secret())
				}
				environment.Create(t, theirs)
			})
			if _, err := a.try(); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
				t.Errorf("the write ended with %v, want a conflict", err)
			}
			version := theirs.ResourceVersion
			result := a.reconcile()
			a.wantUnprogrammed(v1alpha1.ReasonSecretConflict)
			if environment.Get(t, theirs); theirs.ResourceVersion != version || string(theirs.Data["password"]) != "somebody else's" {
				t.Errorf("the Secret was changed: %v", theirs.Data)
			}
			if result.RequeueAfter == 0 {
				t.Error("it is not looked at again")
			}
			remove(t, theirs)
			a.reconcile()
			a.wantReady()
			a.wantNoWrites()
		})
	}
}

func TestASecretThatGoesMeanwhileIsMadeAnew(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	a := &rotating{b.application(b.namespace, "billing", on(instance)), server, false}
	a.reconcile()
	first := a.password()
	a.rotate()
	b.meanwhile("patch *v1.Secret", func() { remove(t, a.secret()) })
	if _, err := a.try(); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		t.Errorf("the write ended with %v", err)
	}
	a.reconcile()
	a.wantReady()
	a.wantPasswords("after the Secret went", first, a.password())
}

// What people add to the Secret between the look and the write is not lost.
func TestAnEntryThatIsAddedMeanwhileStays(t *testing.T) {
	b := newBench(t)
	instance, _ := b.redis()
	a := b.application(b.namespace, "billing", on(instance))
	a.reconcile()
	update(t, a.object, func(lns *v1alpha1.LockNamespace) { lns.Spec.Credentials.RotationCounter = 1 })
	b.meanwhile("patch *v1.Secret", func() {
		update(t, a.secret(), func(s *corev1.Secret) { s.Data["note"] = []byte("kept") })
	})
	if _, err := a.try(); !apierrors.IsConflict(err) {
		t.Errorf("the write ended with %v", err)
	}
	a.reconcile()
	a.wantReady()
	if got := string(a.secret().Data["note"]); got != "kept" {
		t.Errorf("the entry is %q", got)
	}
}

// A Secret that its owner froze is told of, and the password that is in it goes on working.
func TestAnImmutableSecretIsTold(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	a := &rotating{b.application(b.namespace, "billing", on(instance)), server, false}
	a.reconcile()
	first := a.password()
	update(t, a.secret(), func(s *corev1.Secret) { s.Immutable = new(true) })
	a.rotate()
	for range 2 {
		if _, err := a.try(); err == nil {
			t.Error("a refused write was no error")
		}
		a.wantUnprogrammed(v1alpha1.ReasonProgramFailed)
		a.wantPasswords("while the Secret is immutable", first)
	}
}
