// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func TestRotateGivesANewPassword(t *testing.T) {
	a := onRedis(t, redistest.Start(t, nil), environment.Namespace(t, nil), "billing")
	config := kubeconfig(t, a.lns.Namespace)
	s := wantDone(t, say(t, config, "", "rotate", "billing"))
	if !strings.Contains(s.out, "rotationCounter 1") || !strings.Contains(s.out, "24h0m0s") {
		t.Errorf("it prints %q", s.out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	events, err := environment.Admin.Watch(ctx, &v1alpha1.LockNamespaceList{}, client.InNamespace(a.lns.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if seen, ok := event.Object.(*v1alpha1.LockNamespace); ok && seen.Status.Credentials != nil && seen.Status.Credentials.ObservedRotationCounter == 1 {
			// Another one has to wait, and the new password works.
			if s := wantDone(t, say(t, config, "", "rotate")); !strings.Contains(s.out, "rotationCounter 2") || !strings.Contains(s.out, "it starts then") {
				t.Errorf("during the overlap it prints %q", s.out)
			}
			wantDone(t, say(t, config, "", "locks"))
			return
		}
	}
	t.Fatal("the operator did not rotate")
}

func TestRotateWithoutAPasswordOrARight(t *testing.T) {
	a := onLeases(t, environment.Namespace(t, nil), "billing")
	config := kubeconfig(t, a.lns.Namespace)
	wantProblem(t, say(t, config, "", "rotate"), ExitFailure, "has no password, since its locks are Leases")
	wantProblem(t, say(t, config, "", "rotate", "--as", "nobody"), ExitFailure, `User "nobody" cannot list`)
}

func TestTheNextRotation(t *testing.T) {
	lns := &v1alpha1.LockNamespace{}
	lns.Spec.Credentials = v1alpha1.Credentials{RotationCounter: 2, Overlap: metav1.Duration{Duration: time.Hour}}
	lns.Status.Credentials = &v1alpha1.CredentialsStatus{ObservedRotationCounter: 5}
	if got := nextCounter(lns); got != 6 {
		t.Errorf("the next counter is %d, want one that the operator has not seen", got)
	}
	if text := rotationAsked(lns, 6, now); !strings.Contains(text, "for 1h0m0s more") {
		t.Error(text)
	}
}
