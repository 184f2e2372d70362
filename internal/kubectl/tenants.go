// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// tenants lists the LockNamespaces of a namespace, or of all.
func (c *cluster) tenants(ctx context.Context, all bool) ([]v1alpha1.LockNamespace, error) {
	var list v1alpha1.LockNamespaceList
	where, in := c.where(all)
	if err := c.client.List(ctx, &list, in); err != nil {
		return nil, c.explain("list the LockNamespaces of "+where, err)
	}
	slices.SortFunc(list.Items, func(x, y v1alpha1.LockNamespace) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return list.Items, nil
}

func (c *cluster) where(all bool) (string, client.ListOption) {
	if all {
		return "all namespaces", client.InNamespace("")
	}
	return "namespace " + c.namespace, client.InNamespace(c.namespace)
}

// tenant finds the one LockNamespace that a verb is about.
func (c *cluster) tenant(ctx context.Context, name string) (*v1alpha1.LockNamespace, error) {
	items, err := c.tenants(ctx, false)
	if err != nil {
		return nil, err
	}
	return choose(c.namespace, name, items)
}

// choose takes the LockNamespace of a name, or without one the only one.
func choose(namespace, name string, items []v1alpha1.LockNamespace) (*v1alpha1.LockNamespace, error) {
	names := make([]string, len(items))
	for i := range items {
		names[i] = items[i].Name
	}
	i := slices.Index(names, name)
	switch {
	case i >= 0:
		return &items[i], nil
	case len(items) == 0:
		return nil, problemf("namespace %s has no LockNamespace: choose another namespace with --namespace; kubectl lockstead status -A shows all", namespace)
	case name != "":
		return nil, problemf("namespace %s has no LockNamespace %s: name one of %s", namespace, name, strings.Join(names, ", "))
	case len(items) > 1:
		return nil, problemf("namespace %s has %d LockNamespaces: name one of %s", namespace, len(items), strings.Join(names, ", "))
	}
	return &items[0], nil
}

// readiness tells in words whether a LockNamespace or RedisInstance can be used, from its conditions.
func readiness(conditions []metav1.Condition, generation int64) (ready bool, words string) {
	condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case condition == nil:
		return false, "the operator has not looked at it yet: see whether it runs"
	case condition.ObservedGeneration != generation:
		return false, "the operator has not looked at its last change yet: see whether it runs"
	case condition.Status != metav1.ConditionTrue:
		return false, fmt.Sprintf("%s: %s", condition.Reason, oneLine(condition.Message))
	}
	return true, ""
}
