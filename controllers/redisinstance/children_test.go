// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// change edits the spec of the managed server as its owner does, and fails the test if the API server refuses.
func (b *bench) change(edit func(*v1alpha1.ManagedServer)) {
	b.t.Helper()
	environment.Get(b.t, b.instance)
	edit(b.instance.Spec.Managed)
	if err := environment.Admin.Update(b.t.Context(), b.instance); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) exists(object client.Object, name string) bool {
	b.t.Helper()
	err := environment.Admin.Get(b.t.Context(), named(b.namespace, name), object)
	if err != nil && !apierrors.IsNotFound(err) {
		b.t.Fatal(err)
	}
	return err == nil
}

func TestChildrenThatAreDisabledGo(t *testing.T) {
	for name, tc := range map[string]struct {
		kind   func() client.Object
		policy func(*v1alpha1.ManagedServer) *v1alpha1.ChildPolicy
	}{
		"the network policy": {
			func() client.Object { return &networkingv1.NetworkPolicy{} },
			func(m *v1alpha1.ManagedServer) *v1alpha1.ChildPolicy { return &m.NetworkPolicy },
		},
		"the disruption budget": {
			func() client.Object { return &policyv1.PodDisruptionBudget{} },
			func(m *v1alpha1.ManagedServer) *v1alpha1.ChildPolicy { return &m.PodDisruptionBudget },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, managed())
			b.reconcile()
			if object := b.get(tc.kind(), "locks-redis"); !metav1.IsControlledBy(object, b.instance) {
				t.Error("it does not belong to the RedisInstance")
			}
			b.change(func(m *v1alpha1.ManagedServer) { *tc.policy(m) = v1alpha1.ChildDisabled })
			b.reconcile()
			if b.exists(tc.kind(), "locks-redis") {
				t.Error("it is still there")
			}
			// One that somebody else makes in its place stays.
			foreign := tc.kind()
			foreign.SetNamespace(b.namespace)
			foreign.SetName("locks-redis")
			environment.Create(t, foreign)
			b.wantNoWrites()
			if !b.exists(tc.kind(), "locks-redis") {
				t.Error("the one of somebody else is gone")
			}
			b.wantUnavailable(v1alpha1.ReasonPodNotReady)
			b.change(func(m *v1alpha1.ManagedServer) { *tc.policy(m) = v1alpha1.ChildManaged })
			b.reconcile()
			b.wantUnavailable(v1alpha1.ReasonObjectConflict)
			b.wantNoWrites()
		})
	}
}

func TestTheNetworkPolicyAdmitsTheOperatorAndAcceptedNamespaces(t *testing.T) {
	b := newBench(t, managed())
	admitted := func() []networkingv1.NetworkPolicyPeer {
		t.Helper()
		b.reconcile()
		policy := b.get(&networkingv1.NetworkPolicy{}, "locks-redis").(*networkingv1.NetworkPolicy)
		b.wantNoWrites()
		if len(policy.Spec.PolicyTypes) != 1 || policy.Spec.PolicyTypes[0] != networkingv1.PolicyTypeIngress ||
			policy.Spec.PodSelector.MatchLabels["lockstead.dev/redisinstance"] != "locks" || len(policy.Spec.Ingress) != 1 {
			t.Fatalf("the policy is %+v", policy.Spec)
		}
		rule := policy.Spec.Ingress[0]
		if len(rule.Ports) != 1 || rule.Ports[0].Port.IntValue() != 6379 || *rule.Ports[0].Protocol != corev1.ProtocolTCP {
			t.Errorf("the ports are %+v", rule.Ports)
		}
		operator := rule.From[0]
		if operator.PodSelector.MatchLabels["app"] != "operator" || operator.NamespaceSelector.MatchExpressions[0].Values[0] != "operators" {
			t.Errorf("the operator is not admitted: %+v", operator)
		}
		return rule.From[1:]
	}
	if others := admitted(); len(others) != 0 {
		t.Errorf("without LockNamespaces %+v are admitted", others)
	}
	// LockNamespaces of two namespaces, and one that is not accepted.
	for _, name := range []string{"a", "b"} {
		b.accept(b.application(name), metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	}
	refused := b.application("refused")
	b.accept(refused, metav1.ConditionFalse, v1alpha1.ReasonNotAllowedByInstance)
	others := admitted()
	if len(others) != 1 || others[0].PodSelector != nil {
		t.Fatalf("admitted are %+v", others)
	}
	selector := others[0].NamespaceSelector.MatchExpressions[0]
	if selector.Key != "kubernetes.io/metadata.name" || selector.Operator != metav1.LabelSelectorOpIn || !slices.Equal(selector.Values, []string{b.namespace}) {
		t.Errorf("admitted are %+v", selector)
	}
}

func (b *bench) accept(a *application, status metav1.ConditionStatus, reason string) {
	b.t.Helper()
	a.setStatus(func(s *v1alpha1.LockNamespaceStatus) {
		s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}}
	})
}

func TestWhatTheAPIServerRefusesIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.ManagedServer)
		want string
	}{
		"an affinity with an unknown field": {func(m *v1alpha1.ManagedServer) {
			m.Scheduling = &v1alpha1.Scheduling{Affinity: &runtime.RawExtension{Raw: []byte(`{"nodeAfinity":{}}`)}}
		}, `unknown field "nodeAfinity"`},
		"an affinity of another type": {func(m *v1alpha1.ManagedServer) {
			m.Scheduling = &v1alpha1.Scheduling{Affinity: &runtime.RawExtension{Raw: []byte(`{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":"no"}}`)}}
		}, "spec.managed.scheduling.affinity"},
		"an affinity without a topology": {func(m *v1alpha1.ManagedServer) {
			m.Scheduling = &v1alpha1.Scheduling{Affinity: &runtime.RawExtension{Raw: []byte(`{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{}]}}`)}}
		}, "topologyKey"},
		"a label": {func(m *v1alpha1.ManagedServer) {
			m.PodMetadata = &v1alpha1.PodMetadata{Labels: map[string]string{"team": "not a label"}}
		}, "labels"},
		"an annotation": {func(m *v1alpha1.ManagedServer) {
			m.PodMetadata = &v1alpha1.PodMetadata{Annotations: map[string]string{"not a key": ""}}
		}, "annotations"},
		"a node selector": {func(m *v1alpha1.ManagedServer) {
			m.Scheduling = &v1alpha1.Scheduling{NodeSelector: map[string]string{"not a key": ""}}
		}, "nodeSelector"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, managed())
			b.reconcile()
			before := b.get(&appsv1.StatefulSet{}, "locks-redis")
			spec := b.instance.Spec.Managed.DeepCopy()
			b.change(tc.edit)
			b.reconcile()
			if message := b.wantUnavailable(v1alpha1.ReasonInvalidSpec); !strings.Contains(message, tc.want) {
				t.Errorf("message %q does not contain %q", message, tc.want)
			}
			if after := b.get(&appsv1.StatefulSet{}, "locks-redis"); after.GetResourceVersion() != before.GetResourceVersion() {
				t.Error("the StatefulSet was changed")
			}
			b.change(func(m *v1alpha1.ManagedServer) { *m = *spec })
			b.reconcile()
			b.wantUnavailable(v1alpha1.ReasonPodNotReady)
			b.wantNoWrites()
		})
	}
}
