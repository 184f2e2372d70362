// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// rotating is an application whose password changes.
type rotating struct {
	*application
	server  *redistest.Server
	managed bool
}

func (r *rotating) rotate() {
	r.t.Helper()
	update(r.t, r.object, func(lns *v1alpha1.LockNamespace) { lns.Spec.Credentials.RotationCounter++ })
}

func (r *rotating) password() string { return r.binding().Redis.Password }

// wantPasswords wants each to be one that a pod could log in with, also after a restart of a managed server.
func (r *rotating) wantPasswords(when string, passwords ...string) {
	r.t.Helper()
	for i, password := range passwords {
		if err := r.server.Client(r.t, r.object.Status.Username, password).Ping(r.t.Context()).Err(); err != nil {
			r.t.Errorf("%s: password %d of %d: %v", when, i+1, len(passwords), err)
		}
		if r.managed && !strings.Contains(string(r.instanceSecret("acl")["users.acl"]), redisproto.PasswordHash(password)) {
			r.t.Errorf("%s: password %d of %d is not in the file that the server boots from", when, i+1, len(passwords))
		}
	}
}

// wantOnly wants no other passwords to work.
func (r *rotating) wantOnly(when string, passwords ...string) {
	r.t.Helper()
	r.wantPasswords(when, passwords...)
	reply, err := r.server.Admin(r.t).Do(r.t.Context(), "ACL", "GETUSER", r.object.Status.Username).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	hashes := reply.(map[any]any)["passwords"].([]any)
	if len(hashes) != len(passwords) {
		r.t.Errorf("%s: %d passwords work, want %d", when, len(hashes), len(passwords))
	}
}

func onBothModes(t *testing.T, test func(t *testing.T, b *bench, application func(name string) *rotating)) {
	t.Helper()
	for _, managed := range []bool{false, true} {
		t.Run(map[bool]string{false: "external", true: "managed"}[managed], func(t *testing.T) {
			b := newBench(t)
			start := func() (*v1alpha1.RedisInstance, *redistest.Server) { return b.redis() }
			if managed {
				start = b.managed
			}
			instance, server := start()
			test(t, b, func(name string) *rotating {
				a := b.application(b.namespace, name, on(instance))
				a.reconcile()
				a.wantReady()
				return &rotating{a, server, managed}
			})
		})
	}
}

const overlap = 24 * time.Hour

func TestAPasswordIsRotatedOnDemand(t *testing.T) {
	onBothModes(t, func(t *testing.T, b *bench, application func(string) *rotating) {
		a := application("billing")
		first := a.password()
		connection := a.login(a.server)
		if err := connection.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if s := a.object.Status.Credentials; s == nil || s.LastRotationTime == nil || s.PreviousValidUntil != nil || s.NextRotationTime != nil {
			t.Errorf("status before any rotation is %+v", s)
		}
		b.events()
		b.clock.Step(time.Hour)
		a.rotate()
		a.reconcile()
		a.wantReady()
		second := a.password()
		if second == first {
			t.Fatal("the Secret has the old password")
		}
		a.wantOnly("in the overlap", first, second)
		s := a.object.Status.Credentials
		if until := b.clock.Now().Add(overlap); s.ObservedRotationCounter != 1 || !s.LastRotationTime.Time.Equal(until.Add(-overlap).Truncate(time.Second)) ||
			!s.PreviousValidUntil.Time.Equal(until.Truncate(time.Second)) || s.NextRotationTime != nil {
			t.Errorf("status in the overlap is %+v", s)
		}
		if got := b.events(); len(got) != 1 || !strings.HasPrefix(got[0], "Normal PasswordRotated") || strings.Contains(got[0], second) {
			t.Errorf("events are %q", got)
		}
		a.wantNoWrites()

		// A third password waits for the end of the first.
		a.rotate()
		b.clock.Step(overlap - time.Second)
		if a.reconcile(); a.password() != second {
			t.Error("a third password was made in the overlap")
		}
		a.wantOnly("a second before the end of the overlap", first, second)
		if s := a.object.Status.Credentials; s.NextRotationTime == nil || !s.NextRotationTime.Equal(s.PreviousValidUntil) {
			t.Errorf("status while a rotation waits is %+v", s)
		}
		if after := a.reconcile().RequeueAfter; after <= 0 || after > time.Second {
			t.Errorf("it is looked at again after %s", after)
		}
		b.clock.Step(time.Second)
		a.reconcile()
		third := a.password()
		a.wantOnly("in the second overlap", second, third)
		b.clock.Step(overlap)
		a.reconcile()
		a.wantOnly("in the end", third)
		if s := a.object.Status.Credentials; s.ObservedRotationCounter != 2 || s.PreviousValidUntil != nil {
			t.Errorf("status in the end is %+v", s)
		}
		a.wantNoWrites()
		if err := connection.Ping(t.Context()).Err(); err != nil {
			t.Errorf("a connection that was opened with the first password was cut: %v", err)
		}
		for _, password := range []string{first, second, third} {
			if strings.Contains(b.told.String(), password) {
				t.Error("a password is in a status, an event or a log")
			}
		}
	})
}

func TestAPasswordIsRotatedOnSchedule(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	a := &rotating{b.application(b.namespace, "billing", on(instance), func(s *v1alpha1.LockNamespaceSpec) {
		s.Credentials.RotationInterval = &metav1.Duration{Duration: 48 * time.Hour}
		s.Credentials.Overlap = metav1.Duration{Duration: time.Hour}
	}), server, false}
	a.reconcile()
	passwords := []string{a.password()}
	for range 3 {
		last := a.object.Status.Credentials.LastRotationTime.Time
		if next := a.object.Status.Credentials.NextRotationTime; next == nil || !next.Time.Equal(last.Add(48*time.Hour)) {
			t.Fatalf("status is %+v", a.object.Status.Credentials)
		}
		b.clock.SetTime(last.Add(48*time.Hour - time.Second))
		a.reconcile()
		a.wantOnly("before", passwords[len(passwords)-1])
		b.clock.Step(time.Second)
		a.reconcile()
		passwords = append(passwords, a.password())
		a.wantOnly("in the overlap", passwords[len(passwords)-2:]...)
	}
	if slices.Sort(passwords); len(slices.Compact(passwords)) != 4 {
		t.Error("a password came back")
	}
	// A shorter overlap takes effect at once, and the schedule can be taken away.
	b.clock.Step(10 * time.Minute)
	update(t, a.object, func(lns *v1alpha1.LockNamespace) {
		lns.Spec.Credentials = v1alpha1.Credentials{Overlap: metav1.Duration{Duration: 10 * time.Minute}}
	})
	a.reconcile()
	a.wantOnly("after a shorter overlap", a.password())
	if a.object.Status.Credentials.NextRotationTime != nil {
		t.Errorf("status is %+v", a.object.Status.Credentials)
	}
}

func TestNoRotationWhileTheServerIsDown(t *testing.T) {
	b := newBench(t)
	instance, server := b.redis()
	a := &rotating{b.application(b.namespace, "billing", on(instance)), server, false}
	a.reconcile()
	first := a.password()
	a.rotate()
	b.address = ""
	if result := a.reconcile(); result.RequeueAfter == 0 {
		t.Error("it is not looked at again")
	}
	a.wantUnprogrammed(v1alpha1.ReasonInstanceNotAvailable)
	if a.password() != first || a.object.Status.Credentials.ObservedRotationCounter != 0 {
		t.Error("the Secret has a password that the server does not know")
	}
	b.address = server.Addr()
	a.reconcile()
	a.wantReady()
	second := a.password()
	a.wantOnly("after the server is back", first, second)
	// A server of somebody else forgets its users when it restarts.
	server.Kill(t)
	server.Run(t)
	b.examine(instance)
	a.reconcile()
	a.wantOnly("after a restart", first, second)
}

func TestADeletedSecretLocksNobodyOut(t *testing.T) {
	onBothModes(t, func(t *testing.T, b *bench, application func(string) *rotating) {
		a := application("billing")
		first := a.password()
		a.rotate()
		a.reconcile()
		second := a.password()
		for range 2 {
			remove(t, a.secret())
			a.reconcile()
			a.wantReady()
		}
		third := a.password()
		if third == second {
			t.Fatal("the password was not lost")
		}
		a.wantPasswords("after the Secret was deleted twice", first, second, third)
		a.wantNoWrites()
		b.clock.Step(overlap)
		a.reconcile()
		a.wantOnly("after the overlap", third)
	})
}

// The operator may end between any two writes. No pod is locked out then, whichever password it has.
func TestRotationSurvivesACrashAtEveryPoint(t *testing.T) {
	onBothModes(t, func(t *testing.T, b *bench, application func(string) *rotating) {
		for name, tc := range map[string]struct {
			// prepare returns the passwords that pods have, and that must go on working.
			prepare func(*rotating) []string
			// working is how many work after the step.
			working int
		}{
			"rotate": {working: 2, prepare: func(a *rotating) []string {
				a.rotate()
				return []string{a.password()}
			}},
			"retire": {working: 1, prepare: func(a *rotating) []string {
				a.rotate()
				a.reconcile()
				b.clock.Step(overlap)
				return []string{a.password()}
			}},
			"retire-and-rotate": {working: 2, prepare: func(a *rotating) []string {
				a.rotate()
				a.reconcile()
				a.rotate()
				b.clock.Step(overlap)
				return []string{a.password()}
			}},
			"replace": {prepare: func(a *rotating) []string {
				first := a.password()
				a.rotate()
				a.reconcile()
				second := a.password()
				remove(t, a.secret())
				return []string{first, second}
			}},
		} {
			points := 0
			for crashed := true; crashed; points++ {
				a := application(fmt.Sprintf("%s-%d", name, points))
				held := tc.prepare(a)
				b.crash.after(points)
				_, _ = a.try()
				crashed = b.crash.happened()
				b.restart(types.NamespacedName{})
				when := fmt.Sprintf("%s: after a crash at point %d", name, points)
				a.wantPasswords(when, held...)
				if name != "replace" {
					a.wantPasswords(when, a.password())
				}
				a.reconcile()
				a.wantReady()
				a.wantPasswords(when+" and another step", append(slices.Clone(held), a.password())...)
				if tc.working > 0 {
					all := append(slices.Clone(held), a.password())
					slices.Sort(all)
					a.wantOnly(when+" and another step", slices.Compact(all)...)
				}
				a.wantNoWrites()
				b.clock.Step(overlap)
				a.reconcile()
				a.wantOnly(when+" and the overlap", a.password())
			}
			if points < 3 {
				t.Errorf("%s: only %d points were seen", name, points)
			}
			t.Logf("%s: %d points", name, points-1)
		}
	})
}

// Several are made at the same time, and the file that the server boots from has all of them.
func TestManyUsersAtATimeAreAllInTheBootFile(t *testing.T) {
	b := newBench(t)
	instance, server := b.managed()
	var all []*application
	for n := range 6 {
		all = append(all, b.application(b.namespace, fmt.Sprintf("app-%d", n), on(instance)))
	}
	var running sync.WaitGroup
	for _, a := range all {
		running.Go(func() {
			if _, err := b.controller.Reconcile(b.ctx, a.object.DeepCopy()); err != nil && !apierrors.IsConflict(err) {
				t.Error(err)
			}
		})
	}
	running.Wait()
	for _, a := range all {
		a.reconcile() // After a conflict it is tried again.
		a.wantReady()
		r := &rotating{a, server, true}
		r.wantOnly(a.object.Name, r.password())
	}
}

// All users of a managed server share one file, which one tenant must not fill by what it writes into its own Secret.
func TestATenantDoesNotFillTheBootFile(t *testing.T) {
	b := newBench(t)
	instance, server := b.managed()
	a := &rotating{b.application(b.namespace, "billing", on(instance)), server, true}
	a.reconcile()
	first := a.password()
	a.rotate()
	a.reconcile()
	hashes := []string{redisproto.PasswordHash(first)}
	for n := range 3000 {
		hashes = append(hashes, redisproto.PasswordHash(fmt.Sprint(n)))
	}
	update(t, a.secret(), func(s *corev1.Secret) {
		s.Annotations["lockstead.dev/previous-password-hashes"] = strings.Join(hashes, ",")
	})
	a.reconcile()
	a.wantReady()
	a.wantPasswords("with too many hashes", first, a.password())
	if size := len(b.instanceSecret("acl")["users.acl"]); size > 8<<10 {
		t.Errorf("the file has %d bytes", size)
	}
	a.wantNoWrites()
}
