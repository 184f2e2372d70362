// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

func rotationSecret(annotations map[string]string, entries map[string][]byte) bindingSecret {
	return bindingSecret{object: &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Annotations: annotations, CreationTimestamp: metav1.NewTime(time.Unix(1000, 0))}, Data: entries,
	}}
}

func TestReadCredentials(t *testing.T) {
	t.Parallel()
	now := time.Unix(5000, 7)
	mine := map[string][]byte{"username": []byte("lk-1"), "password": []byte("p")}
	hash := redisproto.PasswordHash("old")
	created := credentials{password: "p", rotatedAt: time.Unix(1000, 0).UTC()}
	for name, tc := range map[string]struct {
		secret bindingSecret
		want   credentials
	}{
		"no Secret":            {bindingSecret{}, credentials{}},
		"no password":          {rotationSecret(nil, map[string][]byte{"username": []byte("lk-1")}), credentials{}},
		"the password for all": {rotationSecret(nil, map[string][]byte{"username": []byte("apps"), "password": []byte("p")}), credentials{}},
		"no annotations":       {rotationSecret(nil, mine), created},
		"broken annotations": {rotationSecret(map[string]string{
			annotationRotatedAt: "x", annotationCounter: "x", annotationPrevious: "x,#12," + strings.ToUpper(hash),
		}, mine), created},
		"in the future": {rotationSecret(map[string]string{annotationRotatedAt: "2200-01-01T00:00:00Z"}, mine), credentials{password: "p", rotatedAt: time.Unix(5000, 0).UTC()}},
		"all": {rotationSecret(map[string]string{
			annotationRotatedAt: "1970-01-01T00:30:00Z", annotationCounter: "3", annotationPrevious: hash + "," + redisproto.PasswordHash("older"),
		}, mine), credentials{password: "p", rotatedAt: time.Unix(1800, 0).UTC(), counter: 3, previous: []string{hash, redisproto.PasswordHash("older")}}},
	} {
		got := readCredentials(tc.secret, "lk-1", now)
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: read %+v, want %+v", name, got, tc.want)
		}
		if got.password == "" {
			continue
		}
		// What is written is read again, so that a second look changes nothing.
		if again := readCredentials(rotationSecret(got.annotations(), mine), "lk-1", now.Add(time.Hour)); !reflect.DeepEqual(got, again) {
			t.Errorf("%s: wrote %+v, and read %+v", name, got, again)
		}
	}
}

func TestPlanRotation(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0).UTC()
	hash, older := redisproto.PasswordHash("p"), redisproto.PasswordHash("older")
	daily := v1alpha1.Credentials{RotationInterval: &metav1.Duration{Duration: 24 * time.Hour}, Overlap: metav1.Duration{Duration: time.Hour}}
	counted := v1alpha1.Credentials{RotationCounter: 5, Overlap: metav1.Duration{Duration: time.Hour}}
	onDemand := v1alpha1.Credentials{Overlap: metav1.Duration{Duration: time.Hour}}
	for name, tc := range map[string]struct {
		counter  int64
		previous []string
		spec     v1alpha1.Credentials
		after    time.Duration
		renewed  bool
		want     []string // other passwords that work
	}{
		"nothing to do":                        {0, nil, onDemand, 1000 * time.Hour, false, nil},
		"in the overlap":                       {0, []string{older}, onDemand, time.Hour - 1, false, []string{older}},
		"after the overlap":                    {0, []string{older}, onDemand, time.Hour, false, nil},
		"before the interval":                  {0, nil, daily, 24*time.Hour - 1, false, nil},
		"after the interval":                   {0, nil, daily, 24 * time.Hour, true, []string{hash}},
		"long after it, operator was down":     {0, []string{older}, daily, 240 * time.Hour, true, []string{hash}},
		"counter grew":                         {4, nil, counted, 0, true, []string{hash}},
		"counter is the same":                  {5, nil, counted, 0, false, nil},
		"counter of a spec that was re-made":   {9, nil, counted, 0, false, nil},
		"counter grew in the overlap":          {4, []string{older}, counted, time.Hour - 1, false, []string{older}},
		"counter grew, and the overlap is out": {4, []string{older}, counted, time.Hour, true, []string{hash}},
	} {
		present := credentials{password: "p", rotatedAt: start, counter: tc.counter, previous: tc.previous}
		got := planRotation(present, tc.spec, true, start.Add(tc.after))
		if got.renewed != tc.renewed || (got.next.password != "p") != tc.renewed || got.keepKnown || !reflect.DeepEqual(got.next.previous, tc.want) {
			t.Errorf("%s: planned %+v", name, got)
		}
		if want := max(tc.counter, tc.spec.RotationCounter); tc.renewed && got.next.counter != want {
			t.Errorf("%s: the new password has counter %d, want %d", name, got.next.counter, want)
		}
	}
	for _, bound := range []bool{false, true} {
		got := planRotation(credentials{}, counted, bound, start)
		if !got.renewed || len(got.next.password) < 40 || got.next.counter != 5 || got.keepKnown != bound {
			t.Errorf("without a Secret, bound %t: planned %+v", bound, got)
		}
	}
}
