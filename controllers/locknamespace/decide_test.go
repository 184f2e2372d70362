// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

func lockNamespace(change func(*v1alpha1.LockNamespace)) *v1alpha1.LockNamespace {
	lns := &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: "payments", Name: "billing", UID: "uid-1"}}
	lns.Spec.TTL.Max.Duration = time.Hour
	if change != nil {
		change(lns)
	}
	return lns
}

func TestChooseTarget(t *testing.T) {
	t.Parallel()
	fallback := types.NamespacedName{Namespace: "lock-system", Name: "default"}
	bound := func(lns *v1alpha1.LockNamespace) {
		lns.Status.Backend = v1alpha1.BackendRedis
		lns.Status.InstanceRef = &v1alpha1.BoundInstance{Namespace: "a", Name: "b", UID: "u"}
	}
	for name, tc := range map[string]struct {
		change   func(*v1alpha1.LockNamespace)
		fallback types.NamespacedName
		want     target
	}{
		"nothing is set up": {nil, types.NamespacedName{}, target{backend: v1alpha1.BackendLease}},
		"the default":       {nil, fallback, target{backend: v1alpha1.BackendRedis, instance: fallback}},
		"the spec wins over the default": {
			func(lns *v1alpha1.LockNamespace) {
				lns.Spec.InstanceRef = &v1alpha1.InstanceReference{Name: "x", Namespace: "y"}
			}, fallback,
			target{backend: v1alpha1.BackendRedis, instance: types.NamespacedName{Namespace: "y", Name: "x"}},
		},
		"the own namespace": {
			func(lns *v1alpha1.LockNamespace) { lns.Spec.InstanceRef = &v1alpha1.InstanceReference{Name: "x"} }, fallback,
			target{backend: v1alpha1.BackendRedis, instance: types.NamespacedName{Namespace: "payments", Name: "x"}},
		},
		"a recorded Lease wins over a later default": {
			func(lns *v1alpha1.LockNamespace) { lns.Status.Backend = v1alpha1.BackendLease }, fallback,
			target{backend: v1alpha1.BackendLease, recorded: true},
		},
		"a recorded instance wins over another default": {
			bound, fallback,
			target{backend: v1alpha1.BackendRedis, recorded: true, uid: "u", instance: types.NamespacedName{Namespace: "a", Name: "b"}},
		},
		"a recorded instance stays without a default": {
			bound, types.NamespacedName{},
			target{backend: v1alpha1.BackendRedis, recorded: true, uid: "u", instance: types.NamespacedName{Namespace: "a", Name: "b"}},
		},
	} {
		if got := chooseTarget(lockNamespace(tc.change), nil, tc.fallback); got != tc.want {
			t.Errorf("%s: chose %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestObjection(t *testing.T) {
	t.Parallel()
	instance := func(change func(*v1alpha1.RedisInstance)) *v1alpha1.RedisInstance {
		i := &v1alpha1.RedisInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "lock-system", Name: "locks", UID: "u"}}
		i.Spec.AllowedNamespaces.From = v1alpha1.NamespacesAll
		i.Spec.Limits.MaxTTL.Duration = time.Hour
		if change != nil {
			change(i)
		}
		return i
	}
	name := types.NamespacedName{Namespace: "lock-system", Name: "locks"}
	first := target{backend: v1alpha1.BackendRedis, instance: name}
	recorded := target{backend: v1alpha1.BackendRedis, instance: name, recorded: true, uid: "u"}
	lease := target{backend: v1alpha1.BackendLease}
	labelled := instance(func(i *v1alpha1.RedisInstance) {
		i.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{
			From: v1alpha1.NamespacesSelector, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"locks": "true"}},
		}
	})
	same := instance(func(i *v1alpha1.RedisInstance) { i.Spec.AllowedNamespaces.From = v1alpha1.NamespacesSame })
	inKube := func(lns *v1alpha1.LockNamespace) { lns.Namespace = "kube-system" }
	for name, tc := range map[string]struct {
		change func(*v1alpha1.LockNamespace)
		target target
		found  evidence
		want   string
	}{
		"Leases":                        {nil, lease, evidence{}, ""},
		"Leases in kube-system":         {inKube, lease, evidence{}, v1alpha1.ReasonNamespaceReserved},
		"Redis for kube-system":         {inKube, first, evidence{instance: instance(nil)}, ""},
		"no instance":                   {nil, first, evidence{}, v1alpha1.ReasonInstanceNotFound},
		"recorded instance gone":        {nil, recorded, evidence{}, v1alpha1.ReasonInstanceNotFound},
		"recorded instance":             {nil, recorded, evidence{instance: instance(nil)}, ""},
		"another instance of the name":  {nil, recorded, evidence{instance: instance(func(i *v1alpha1.RedisInstance) { i.UID = "v" })}, v1alpha1.ReasonInstanceReplaced},
		"another namespace":             {nil, first, evidence{instance: same}, v1alpha1.ReasonNotAllowedByInstance},
		"the same namespace":            {func(lns *v1alpha1.LockNamespace) { lns.Namespace = "lock-system" }, first, evidence{instance: same}, ""},
		"from is not set":               {nil, first, evidence{instance: instance(func(i *v1alpha1.RedisInstance) { i.Spec.AllowedNamespaces.From = "" })}, v1alpha1.ReasonNotAllowedByInstance},
		"label matches":                 {nil, first, evidence{instance: labelled, namespaceLabels: map[string]string{"locks": "true"}}, ""},
		"label does not match":          {nil, first, evidence{instance: labelled}, v1alpha1.ReasonNotAllowedByInstance},
		"consent withdrawn":             {nil, recorded, evidence{instance: labelled}, v1alpha1.ReasonNotAllowedByInstance},
		"TTL too long":                  {func(lns *v1alpha1.LockNamespace) { lns.Spec.TTL.Max.Duration = time.Hour + 1 }, first, evidence{instance: instance(nil)}, v1alpha1.ReasonTTLAboveInstanceMaximum},
		"Leases exist":                  {nil, first, evidence{instance: instance(nil), leases: true}, v1alpha1.ReasonLeasesExist},
		"Leases matter only when first": {nil, recorded, evidence{instance: instance(nil), leases: true}, ""},
	} {
		got := objection(lockNamespace(tc.change), tc.target, tc.found)
		if got.reason != tc.want || (got.message == "") != (tc.want == "") {
			t.Errorf("%s: objects %+v, want %q", name, got, tc.want)
		}
	}
}

func TestLeaseBindingKeepsARaisedEpoch(t *testing.T) {
	t.Parallel()
	for present, want := range map[string]uint64{"": 1, "0": 1, "7": 7, "x": 1, "-3": 1} {
		b := leaseBinding(lockNamespace(nil), map[string][]byte{"epoch": []byte(present)})
		if b.Lease.Epoch != want {
			t.Errorf("with epoch %q present the binding has %d, want %d", present, b.Lease.Epoch, want)
		}
	}
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	lns := lockNamespace(nil)
	setConditions(lns, outcome{programmed: unprogrammed(verdict{v1alpha1.ReasonProgramFailed, "one"})}, now)
	if got := transitions(nil, lns.Status.Conditions); len(got) != 1 || got[0].kind != "Warning" {
		t.Errorf("the first fault gave %v", got)
	}
	before := lns.DeepCopy().Status.Conditions
	setConditions(lns, outcome{programmed: unprogrammed(verdict{v1alpha1.ReasonProgramFailed, "two"})}, now)
	if got := transitions(before, lns.Status.Conditions); len(got) != 0 {
		t.Errorf("the same fault in other words gave %v", got)
	}
	setConditions(lns, outcome{programmed: programmed{done: verdict{v1alpha1.ReasonProgrammed, "done"}}}, now)
	if got := transitions(before, lns.Status.Conditions); len(got) != 1 || got[0].kind != "Normal" || got[0].reason != v1alpha1.ReasonReady {
		t.Errorf("recovery gave %v", got)
	}
}
