// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package faulttest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// state is all that an operator made, by name, without what differs from one run to the next: identities, versions, times of writing, and the
// content of passwords, which are numbered in the order in which they were seen.
type state map[string]string

// differences are what is otherwise in got, a line each.
func differences(want, got state) []string {
	var lines []string
	names := maps.Clone(want)
	maps.Copy(names, got)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch w, g := want[name], got[name]; {
		case w == "":
			lines = append(lines, fmt.Sprintf("%s should not be there: %s", name, g))
		case g == "":
			lines = append(lines, name+" is missing")
		case w != g:
			lines = append(lines, fmt.Sprintf("%s\n   is     %s\n   not    %s", name, around(g, w), around(w, g)))
		}
	}
	return lines
}

// around is the part of a text at which it begins to differ from another.
func around(text, other string) string {
	at := 0
	for at < min(len(text), len(other)) && text[at] == other[at] {
		at++
	}
	return text[max(0, at-200):min(len(text), at+400)]
}

// kinds are what is compared.
func kinds() map[string]client.ObjectList {
	return map[string]client.ObjectList{
		"LockNamespace": &v1alpha1.LockNamespaceList{}, "RedisInstance": &v1alpha1.RedisInstanceList{}, "Secret": &corev1.SecretList{},
		"ConfigMap": &corev1.ConfigMapList{}, "Service": &corev1.ServiceList{}, "StatefulSet": &appsv1.StatefulSetList{}, "Role": &rbacv1.RoleList{},
		"RoleBinding": &rbacv1.RoleBindingList{}, "NetworkPolicy": &networkingv1.NetworkPolicyList{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{},
		"Lease": &coordinationv1.LeaseList{},
	}
}

func objectsOf(list client.ObjectList) []client.Object {
	var objects []client.Object
	// It fails only for what is no list.
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(client.Object); ok {
			objects = append(objects, object)
		}
		return nil
	})
	return objects
}

// state reads what there is now.
func (w *world) state() state {
	w.t.Helper()
	w.observeSecrets()
	names := w.names()
	found := state{}
	for kind, list := range kinds() {
		for _, object := range w.list(list) {
			if kind == "ConfigMap" && object.GetName() == "kube-root-ca.crt" {
				continue
			}
			found[kind+" "+object.GetName()] = names.Replace(w.content(object))
		}
	}
	for key, value := range w.epochRecords() {
		found["record "+names.Replace(key)] = names.Replace(value)
	}
	owner := redisadmin.OwnerKey("lk")
	if value, err := w.admin.Get(w.t.Context(), owner).Result(); err == nil {
		found["record "+owner] = value
	}
	for name, user := range w.users() {
		found["user "+names.Replace(name)] = names.Replace(user)
	}
	libraries, err := w.admin.FunctionList(w.t.Context(), redis.FunctionListQuery{WithCode: true}).Result()
	w.must(err)
	for _, library := range libraries {
		found["library "+library.Name] = fmt.Sprintf("as it should be: %t", library.Code == redisproto.Library())
	}
	settings, err := w.admin.ConfigGet(w.t.Context(), "append*").Result()
	w.must(err)
	for _, name := range []string{"appendonly", "appendfsync"} {
		found["setting "+name] = settings[name]
	}
	return found
}

// names replaces what differs from one run to the next.
func (w *world) names() *strings.Replacer {
	w.t.Helper()
	pairs := []string{}
	for name, passwords := range w.passwords {
		for i, password := range passwords {
			label := fmt.Sprintf("password %d of Secret %s>", i, name)
			pairs = append(pairs, password, "<"+label, redisproto.PasswordHash(password), "<hash of "+label)
		}
	}
	for kind, list := range map[string]client.ObjectList{"instance": &v1alpha1.RedisInstanceList{}, "namespace": &v1alpha1.LockNamespaceList{}} {
		for _, object := range w.list(list) {
			name := kind + " " + object.GetName()
			if instance, ok := object.(*v1alpha1.RedisInstance); ok {
				// How great it is is compared apart: an operator that lost its memory of a server raises it, and nothing is lost by that.
				pairs = append(pairs, fmt.Sprint(instance.Status.Epoch), "<epoch of "+name+">")
			}
			pairs = append(pairs, string(object.GetUID()), "<UID of "+name+">", redisadmin.TenantUser(string(object.GetUID())), "<user of "+name+">")
		}
	}
	return strings.NewReplacer(append(pairs, w.namespace, "<kubernetes namespace>")...)
}

// varying are the fields that differ from one run to the next.
var varying = []string{
	"uid", "resourceVersion", "managedFields", "creationTimestamp", "generation", "lastTransitionTime", "runID", "clusterIP", "clusterIPs", "observedGeneration",
	"lockstead.dev/applied", "lockstead.dev/boot",
}

// content is an object without what differs from one run to the next.
func (w *world) content(object client.Object) string {
	w.t.Helper()
	text, err := json.Marshal(object)
	w.must(err)
	var fields map[string]any
	w.must(json.Unmarshal(text, &fields))
	if secret, ok := object.(*corev1.Secret); ok {
		data := map[string]any{}
		for name, value := range secret.Data {
			data[name] = string(value)
		}
		fields["data"] = data
	}
	omit(fields)
	text, err = json.Marshal(fields)
	w.must(err)
	return unknownHash.ReplaceAllStringFunc(string(text), w.hash)
}

var unknownHash = regexp.MustCompile(`#[0-9a-f]{64}`)

// hash names a password's hash that nobody has the password of.
func (w *world) hash(hash string) string {
	for _, passwords := range w.passwords {
		for _, password := range passwords {
			if redisproto.PasswordHash(password) == hash {
				return hash
			}
		}
	}
	return "<hash of a password that is nobody's>"
}

func omit(value any) {
	switch value := value.(type) {
	case map[string]any:
		// A UID in a spec or a status is compared.
		_, isMetadata := value["managedFields"]
		for _, name := range varying {
			if name != "uid" || isMetadata {
				delete(value, name)
			}
		}
		for _, field := range value {
			omit(field)
		}
	case []any:
		for _, element := range value {
			omit(element)
		}
	}
}

// users are the users of the server but the test's own, as lines of an ACL file with their words in order.
func (w *world) users() map[string]string {
	w.t.Helper()
	lines, err := w.admin.Do(w.t.Context(), "ACL", "LIST").StringSlice()
	w.must(err)
	users := map[string]string{}
	for _, line := range lines {
		words := strings.Fields(line)
		if words[1] == "admin" {
			continue
		}
		rules := words[2:]
		slices.Sort(rules)
		users[words[1]] = unknownHash.ReplaceAllStringFunc(strings.Join(rules, " "), w.hash)
	}
	return users
}
