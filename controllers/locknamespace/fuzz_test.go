// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// FuzzCredentials reads what whoever may write Secrets can have written into one, and plans the next step of the rotation from it. The password
// that pods have goes on working in each, and no more than one is added.
func FuzzCredentials(f *testing.F) {
	hash := redisproto.PasswordHash("x")
	f.Add("lk-0a", "secret", "2026-12-02T22:00:00Z", "3", hash, int64(4), int64(0), int64(3600), false, int64(0))
	f.Add("lk-0a", "secret", "9999-12-31T23:59:59Z", "-1", hash+","+hash+",#,", int64(0), int64(60), int64(1), true, int64(1<<40))
	f.Add("lk-0a", "", "", "", "", int64(0), int64(0), int64(0), true, int64(0))
	f.Add("lk-0b", "secret", "yesterday", "99999999999999999999", "x,y", int64(1), int64(1), int64(1), true, int64(9))
	f.Fuzz(func(t *testing.T, user, password, rotatedAt, counter, previous string, wanted, interval, overlap int64, bound bool, passed int64) {
		const most = 1 << 32
		now := time.Date(2026, 12, 2, 22, 30, 0, 0, time.UTC).Add(time.Duration(max(0, passed%most)) * time.Second)
		secret := bindingSecret{object: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), Annotations: map[string]string{
				annotationRotatedAt: rotatedAt, annotationCounter: counter, annotationPrevious: previous,
			}},
			Data: map[string][]byte{"username": []byte(user), "password": []byte(password)},
		}}
		have := readCredentials(secret, "lk-0a", now)
		if (have.password != "") != (user == "lk-0a" && password != "") {
			t.Fatalf("the password of %q is read as that of lk-0a: %t", user, have.password != "")
		}
		if have.rotatedAt.After(now) {
			t.Errorf("a password was written at %s, after %s", have.rotatedAt, now)
		}
		for _, hash := range have.previous {
			if !redisproto.IsPasswordHash(hash) {
				t.Errorf("%q is taken for a hash", hash)
			}
		}
		secret.object.Annotations = have.annotations()
		if again := readCredentials(secret, "lk-0a", now); have.password != "" && !reflect.DeepEqual(again, have) {
			t.Errorf("%+v is read as %+v when it was written", have, again)
		}
		spec := v1alpha1.Credentials{RotationCounter: wanted, Overlap: metav1.Duration{Duration: time.Duration(max(0, overlap%most)) * time.Second}}
		if interval > 0 {
			spec.RotationInterval = &metav1.Duration{Duration: time.Duration(interval%most) * time.Second}
		}
		step := planRotation(have, spec, bound, now)
		switch {
		case have.password == "":
			if !step.renewed || step.keepKnown != bound {
				t.Errorf("without a Secret the step is to renew: %t, and to keep what the server has: %t", step.renewed, step.keepKnown)
			}
		case step.next.password != have.password && !slices.Contains(step.next.previous, redisproto.PasswordHash(have.password)):
			t.Error("the password that pods have ends with the step")
		case step.renewed && len(step.next.previous) != 1:
			t.Errorf("%d passwords work beside a new one", len(step.next.previous))
		case step.next.counter < have.counter:
			t.Errorf("the counter falls from %d to %d", have.counter, step.next.counter)
		}
		if step.renewed == (step.next.password == have.password) {
			t.Error("a new password is not told, or told where there is none")
		}
	})
}

// FuzzRestoredRecord takes the record of a lost status from a Secret. It is believed only as far as the spec could ask for the same.
func FuzzRestoredRecord(f *testing.F) {
	f.Add("redis", "locks/one", "uid", "", "locks", "one")
	f.Add("lease", "", "", "", "", "")
	f.Add("redis", "locks", "uid", "lk:{x}:", "", "")
	f.Add("etcd", "a/b/c", "uid", "", "", "")
	f.Fuzz(func(t *testing.T, kind, instance, uid, prefix, namespace, name string) {
		lns := &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: "payments", Name: "billing", UID: "0a"}}
		if name != "" {
			lns.Spec.InstanceRef = &v1alpha1.InstanceReference{Namespace: namespace, Name: name}
		}
		restored := restoreRecord(lns, bindingSecret{object: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationInstance: instance}},
			Data:       map[string][]byte{"type": []byte(kind), "instance": []byte(uid), "prefix": []byte(prefix)},
		}})
		status := lns.Status
		switch {
		case !restored:
			if status.Backend != "" || status.InstanceRef != nil {
				t.Errorf("something was recorded: %+v", status)
			}
			return
		case status.Binding != nil:
			t.Error("the record says that the backend was programmed")
		case status.Prefix != "lk:{payments/billing}:":
			t.Errorf("the prefix is %q", status.Prefix)
		}
		if asked := named(lns); asked.Name != "" && (status.InstanceRef == nil || status.InstanceRef.Name != asked.Name || status.InstanceRef.Namespace != asked.Namespace) {
			t.Errorf("%+v was recorded for a spec that names %s", status.InstanceRef, asked)
		}
	})
}
