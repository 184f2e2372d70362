// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace_test

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// specFields are the fields of the spec in the generated schema, down to those that have no fields of their own.
func specFields(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../config/crd/bases/lockstead.dev_locknamespaces.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	var fields []string
	var collect func(path string, schema apiextensionsv1.JSONSchemaProps)
	collect = func(path string, schema apiextensionsv1.JSONSchemaProps) {
		if schema.Items != nil && schema.Items.Schema != nil {
			schema = *schema.Items.Schema
		}
		if len(schema.Properties) == 0 {
			fields = append(fields, path)
		}
		for name, property := range schema.Properties {
			collect(strings.TrimPrefix(path+"."+name, "."), property)
		}
	}
	collect("", crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	slices.Sort(fields)
	return fields
}

// household has a LockNamespace of each kind.
type household struct {
	*bench
	server *redistest.Server
	// owner names all that one on Redis can name, sharer shares its locks, and leases has neither.
	owner, sharer, leases *application
}

func newHousehold(t *testing.T) *household {
	t.Helper()
	b := newBench(t)
	instance, server := b.limited(allowPrefixes)
	theirs := environment.Namespace(t, nil)
	h := &household{
		bench: b, server: server,
		owner: b.application(b.namespace, "owner", on(instance), withPrefix("team/a"), shareWith(v1alpha1.ShareGrant{Namespace: theirs, Name: "sharer"}),
			func(s *v1alpha1.LockNamespaceSpec) { s.Binding.SecretName = "locks-binding" }),
		sharer: b.application(theirs, "sharer", shareFrom(b.namespace, "owner")),
		leases: b.application(b.namespace, "leases"),
	}
	h.settle()
	return h
}

func (h *household) all() []*application { return []*application{h.owner, h.sharer, h.leases} }

// settle brings all up to date, and wants nothing to be left to do.
func (h *household) settle() {
	h.t.Helper()
	for _, a := range h.all() {
		a.reconcile()
		a.wantNoWrites()
	}
}

// state is everything that was made for all: Secrets without passwords, users on the server, and rights.
func (h *household) state() map[string]any {
	h.t.Helper()
	state := map[string]any{}
	for _, a := range h.all() {
		secret := a.secret()
		entries := maps.Clone(secret.Data)
		delete(entries, binding.KeyPassword)
		delete(entries, binding.KeyURI)
		state[a.object.Name+" Secret"] = entries
		if a.object.Status.Backend == v1alpha1.BackendLease {
			var role rbacv1.Role
			var roleBinding rbacv1.RoleBinding
			if !a.exists(&role, "lockstead-"+a.object.Name) || !a.exists(&roleBinding, "lockstead-"+a.object.Name) {
				h.t.Error("rights are missing")
			}
			state[a.object.Name+" rights"] = []any{role.Rules, roleBinding.Subjects}
			continue
		}
		user, err := h.server.Admin(h.t).Do(h.t.Context(), "ACL", "GETUSER", a.object.Status.Username).Result()
		if err != nil {
			h.t.Fatal(err)
		}
		rules := maps.Clone(user.(map[any]any))
		delete(rules, "passwords")
		state[a.object.Name+" user"] = rules
	}
	return state
}

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }

// Every field of the spec, changed and changed back, converges, or is refused with a message. A new field fails this test until it has a case.
func TestEveryFieldConvergesOrIsRefused(t *testing.T) {
	type spec = v1alpha1.LockNamespaceSpec
	owner := func(h *household) *application { return h.owner }
	sharer := func(h *household) *application { return h.sharer }
	covered := map[string]bool{}
	leases := func(h *household) *application { return h.leases }
	for _, tc := range []struct {
		field string
		of    func(*household) *application
		// change is refused with a message, or takes effect.
		change  func(*spec)
		refused string
		effect  func(t *testing.T, h *household)
		// back undoes the change. Nil is the spec from before.
		back func(*spec)
	}{
		{field: "instanceRef.name", of: owner, change: func(s *spec) { s.InstanceRef.Name = "other" }, refused: "instanceRef is immutable: locks do not move"},
		{field: "instanceRef.namespace", of: owner, change: func(s *spec) { s.InstanceRef.Namespace = "other" }, refused: "instanceRef is immutable: locks do not move"},
		{field: "instanceRef", of: owner, change: func(s *spec) { s.InstanceRef = nil }, refused: "instanceRef cannot be added or removed"},
		{field: "instanceRef", of: leases, change: func(s *spec) { s.InstanceRef = &v1alpha1.InstanceReference{Name: "locks"} }, refused: "instanceRef cannot be added or removed"},
		{field: "prefix", of: owner, change: func(s *spec) { s.Prefix = "team/b" }, refused: "prefix is immutable: other keys are other locks"},
		{field: "prefix", of: owner, change: func(s *spec) { s.Prefix = "" }, refused: "prefix cannot be added or removed"},
		{field: "prefix", of: leases, change: func(s *spec) { s.Prefix = "team/b" }, refused: "prefix cannot be added or removed"},
		{field: "shareFrom.namespace", of: sharer, change: func(s *spec) { s.ShareFrom.Namespace = "other" }, refused: "shareFrom is immutable: other keys are other locks"},
		{field: "shareFrom.name", of: sharer, change: func(s *spec) { s.ShareFrom.Name = "other" }, refused: "shareFrom is immutable: other keys are other locks"},
		{field: "shareFrom", of: sharer, change: func(s *spec) { s.ShareFrom = nil }, refused: "shareFrom cannot be added or removed"},
		{field: "shareWith.namespace", of: owner, change: func(s *spec) { s.ShareWith[0].Namespace = "other" }, effect: sharerIsOut},
		{field: "shareWith.name", of: owner, change: func(s *spec) { s.ShareWith[0].Name = "other" }, effect: sharerIsOut},
		{field: "shareWith", of: owner, change: func(s *spec) { s.ShareWith = nil }, effect: sharerIsOut},
		{field: "ttl.default", of: owner, change: func(s *spec) { s.TTL.Default = seconds(7) }, effect: func(t *testing.T, h *household) {
			if got := h.owner.binding().TTLDefault; got != 7*time.Second {
				t.Errorf("the Secret has %s", got)
			}
		}},
		{field: "ttl.default", of: owner, change: func(s *spec) { s.TTL.Default = seconds(7200) }, refused: "ttl.default (30s unless set) must not be longer than ttl.max"},
		{field: "ttl.max", of: owner, change: func(s *spec) { s.TTL.Max = seconds(1800) }, effect: func(t *testing.T, h *household) {
			if got := h.owner.binding().TTLMax; got != 30*time.Minute {
				t.Errorf("the Secret has %s", got)
			}
			h.sharer.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTTLAboveOwnerMaximum)
		}},
		{field: "consumers", of: leases, change: func(s *spec) { s.Consumers = []string{"other", "worker"} }, effect: func(t *testing.T, h *household) {
			var roleBinding rbacv1.RoleBinding
			if !h.leases.exists(&roleBinding, "lockstead-leases") || len(roleBinding.Subjects) != 2 || roleBinding.Subjects[0].Name != "other" {
				t.Errorf("subjects are %v", roleBinding.Subjects)
			}
		}},
		{
			field: "credentials.rotationInterval", of: owner, change: func(s *spec) { s.Credentials.RotationInterval = new(seconds(48 * 3600)) },
			effect: func(t *testing.T, h *household) {
				if s := h.owner.object.Status.Credentials; s.NextRotationTime == nil || !s.NextRotationTime.Time.Equal(s.LastRotationTime.Add(48*time.Hour)) {
					t.Errorf("status is %+v", s)
				}
			},
		},
		{field: "credentials.rotationInterval", of: owner, change: func(s *spec) { s.Credentials.RotationInterval = new(seconds(3600)) }, refused: "credentials.overlap (24h unless set) has to be shorter"},
		{
			field: "credentials.overlap", of: owner, change: func(s *spec) { s.Credentials.Overlap, s.Credentials.RotationCounter = seconds(600), 1 },
			effect: func(t *testing.T, h *household) {
				if s := h.owner.object.Status.Credentials; s.PreviousValidUntil == nil || !s.PreviousValidUntil.Time.Equal(s.LastRotationTime.Add(10*time.Minute)) {
					t.Errorf("status is %+v", s)
				}
			},
			back: func(s *spec) { s.Credentials.Overlap = seconds(24 * 3600) },
		},
		{
			field: "credentials.rotationCounter", of: owner, change: func(s *spec) { s.Credentials.RotationCounter = 1 },
			effect: func(t *testing.T, h *household) {
				if s := h.owner.object.Status.Credentials; s.ObservedRotationCounter != 1 || s.PreviousValidUntil == nil {
					t.Errorf("status is %+v", s)
				}
				environment.Get(t, h.owner.object)
				h.owner.object.Spec.Credentials.RotationCounter = 0
				wantRefusal(t, environment.Admin.Update(t.Context(), h.owner.object), "credentials.rotationCounter can only grow")
			},
			back: func(*spec) {}, // It cannot go back.
		},
		{field: "idempotencyRecords.memory", of: owner, change: records("3Mi"), effect: func(t *testing.T, h *household) {
			if got := h.owner.binding().Redis.Records; got == nil || got.Share != 3<<20 {
				t.Errorf("the Secret has %+v", got)
			}
		}},
		{field: "idempotencyRecords.maxResponseSize", of: owner, change: func(s *spec) {
			s.IdempotencyRecords = &v1alpha1.IdempotencyRecords{MaxResponseSize: quantity("5Ki")}
		}, effect: func(t *testing.T, h *household) {
			if got := h.owner.binding().Redis.Records; got == nil || *got != (binding.Records{Share: 16 << 20, MaxResponse: 5 << 10}) {
				t.Errorf("the Secret has %+v", got)
			}
		}},
		{field: "idempotencyRecords", of: sharer, change: records("1Mi"), refused: "idempotencyRecords belong to the LockNamespace that has the keys"},
		{field: "binding.secretName", of: owner, change: func(s *spec) { s.Binding.SecretName = "other" }, refused: "binding is immutable: pods mount the Secret by its name"},
		{field: "binding.secretName", of: owner, change: func(s *spec) { s.Binding = v1alpha1.BindingSpec{} }, refused: "binding cannot be added or removed"},
	} {
		covered[tc.field] = true
		t.Run(tc.field, func(t *testing.T) {
			h := newHousehold(t)
			a := tc.of(h)
			before, spec := h.state(), a.object.Spec.DeepCopy()
			environment.Get(t, a.object)
			tc.change(&a.object.Spec)
			if tc.refused != "" {
				wantRefusal(t, environment.Admin.Update(t.Context(), a.object), tc.refused)
				environment.Get(t, a.object)
				if !reflect.DeepEqual(a.object.Spec, *spec) {
					t.Error("it was changed all the same")
				}
				return
			}
			if err := environment.Admin.Update(t.Context(), a.object); err != nil {
				t.Fatal(err)
			}
			h.settle()
			tc.effect(t, h)
			update(t, a.object, func(lns *v1alpha1.LockNamespace) {
				if tc.back != nil {
					tc.back(&lns.Spec)
				} else {
					lns.Spec = *spec.DeepCopy()
				}
			})
			h.settle()
			for _, a := range h.all() {
				a.wantReady()
				if a.object.Status.Backend == v1alpha1.BackendRedis {
					if err := a.acquire(h.server, "lk:{team/a}:", a.object.Name); err != nil {
						t.Errorf("%s: acquire: %v", a.object.Name, err)
					}
				}
			}
			if after := h.state(); !reflect.DeepEqual(before, after) {
				t.Errorf("changed back, there is\n%s\nwhere there was\n%s", fmt.Sprint(after), fmt.Sprint(before))
			}
		})
	}
	for _, field := range specFields(t) {
		if !covered[field] {
			t.Errorf("spec.%s has no case in this test", field)
		}
	}
}

func wantRefusal(t *testing.T, err error, message string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("the answer is %v, want %q", err, message)
	}
}

func sharerIsOut(t *testing.T, h *household) {
	h.sharer.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonShareNotGranted)
	if slices.Contains(h.users(h.server), h.sharer.object.Status.Username) {
		t.Error("the sharer still has a user")
	}
}
