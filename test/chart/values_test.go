// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// pod is where the template of the operator's pod has its spec, and container where its container is.
const (
	pod       = "Deployment /spec/template/spec"
	container = pod + "/containers/0"
)

// changed has a case for every value of the chart: another value than the default, and what it changes.
var changed = map[string]struct {
	// value is JSON.
	value string
	// with are further values that it needs to have an effect.
	with string
	// at is a kind and a JSON pointer into the object of this kind, and want what is there then, as JSON. "" is nothing: no such object, or no such field.
	at, want string
}{
	"image.repository":  {`"example.com/locks"`, "", container + "/image", `"example.com/locks:0.1.0"`},
	"image.tag":         {`"v9"`, "", container + "/image", `"ghcr.io/lockstead/lockstead:v9"`},
	"image.digest":      {digest, "", container + "/image", `"ghcr.io/lockstead/lockstead@` + strings.Trim(digest, `"`) + `"`},
	"image.pullPolicy":  {`"Always"`, "", container + "/imagePullPolicy", `"Always"`},
	"imagePullSecrets":  {`[{"name":"registry"}]`, "", pod + "/imagePullSecrets", `[{"name":"registry"}]`},
	"replicas":          {`3`, "", "Deployment /spec/replicas", `3`},
	"nameOverride":      {`"mutex"`, "", "Deployment /metadata/labels/app.kubernetes.io~1name", `"mutex"`},
	"fullnameOverride":  {`"mutex"`, "", "Deployment /metadata/name", `"mutex"`},
	"crds.enabled":      {`false`, "", "CustomResourceDefinition", ""},
	"crds.keep":         {`false`, "", "CustomResourceDefinition /metadata/annotations/helm.sh~1resource-policy", ""},
	"rbac.create":       {`false`, "", "ClusterRoleBinding", ""},
	"logLevel":          {`"debug"`, "", container + "/args/*", `"--log-level=debug"`},
	"extraArgs":         {`["--leader-election-namespace=x"]`, "", container + "/args/*", `"--leader-election-namespace=x"`},
	"resources":         {`{"limits":{"memory":"1Gi"}}`, "", container + "/resources/limits/memory", `"1Gi"`},
	"podAnnotations":    {`{"team":"a"}`, "", "Deployment /spec/template/metadata/annotations/team", `"a"`},
	"podLabels":         {`{"team":"a"}`, "", "Deployment /spec/template/metadata/labels/team", `"a"`},
	"priorityClassName": {`"high"`, "", pod + "/priorityClassName", `"high"`},
	"nodeSelector":      {`{"disk":"ssd"}`, "", pod + "/nodeSelector", `{"disk":"ssd"}`},
	"tolerations":       {`[{"operator":"Exists"}]`, "", pod + "/tolerations", `[{"operator":"Exists"}]`},
	"affinity":          {`{"podAntiAffinity":{}}`, "", pod + "/affinity", `{"podAntiAffinity":{}}`},
	"topologySpreadConstraints": {
		`[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]`, "", pod + "/topologySpreadConstraints/0/topologyKey", `"zone"`,
	},
	"terminationGracePeriodSeconds": {`60`, "", pod + "/terminationGracePeriodSeconds", `60`},

	"serviceAccount.create":      {`false`, "serviceAccount.name=mine", "ServiceAccount", ""},
	"serviceAccount.name":        {`"mine"`, "", pod + "/serviceAccountName", `"mine"`},
	"serviceAccount.annotations": {`{"role":"a"}`, "", "ServiceAccount /metadata/annotations", `{"role":"a"}`},

	"defaultRedisInstance.enabled":   {`true`, "", container + "/args/*", `"--default-instance=lockstead-system/default"`},
	"defaultRedisInstance.name":      {`"shared"`, "defaultRedisInstance.enabled=true", "RedisInstance /metadata/name", `"shared"`},
	"defaultRedisInstance.namespace": {`"redis"`, "defaultRedisInstance.enabled=true", "RedisInstance /metadata/namespace", `"redis"`},
	"defaultRedisInstance.create":    {`false`, "defaultRedisInstance.enabled=true", "RedisInstance", ""},
	"defaultRedisInstance.spec":      {`{"mode":"Managed"}`, "defaultRedisInstance.enabled=true", "RedisInstance /spec", `{"mode":"Managed"}`},

	"metrics.enabled":                 {`false`, "", "Service", ""},
	"metrics.certificateSecret":       {`"certs"`, "", pod + "/volumes/0/secret/secretName", `"certs"`},
	"metrics.serviceMonitor.enabled":  {`true`, "", "ServiceMonitor /spec/endpoints/0/port", `"metrics"`},
	"metrics.serviceMonitor.interval": {`"5m"`, "metrics.serviceMonitor.enabled=true", "ServiceMonitor /spec/endpoints/0/interval", `"5m"`},
	"metrics.serviceMonitor.labels":   {`{"a":"b"}`, "metrics.serviceMonitor.enabled=true", "ServiceMonitor /metadata/labels/a", `"b"`},
	"metrics.serviceMonitor.tlsConfig": {
		`{"serverName":"locks"}`, "metrics.serviceMonitor.enabled=true", "ServiceMonitor /spec/endpoints/0/tlsConfig/serverName", `"locks"`,
	},

	"networkPolicy.enabled": {`true`, "", "NetworkPolicy /spec/ingress/1/ports/0/port", `"metrics"`},
	"networkPolicy.metricsFrom": {
		`[{"podSelector":{}}]`, "networkPolicy.enabled=true", "NetworkPolicy /spec/ingress/1/from", `[{"podSelector":{}}]`,
	},
	"podDisruptionBudget.enabled":        {`true`, "", "PodDisruptionBudget /spec/maxUnavailable", `1`},
	"podDisruptionBudget.maxUnavailable": {`"50%"`, "podDisruptionBudget.enabled=true", "PodDisruptionBudget /spec/maxUnavailable", `"50%"`},
}

var digest = `"sha256:` + strings.Repeat("0a", 32) + `"`

// refused has for every value of the chart what the schema refuses, and what it says. The type is tried for every value besides.
var refused = map[string]struct{ value, want string }{
	"image.repository":                   {`""`, "minLength"},
	"image.digest":                       {`"sha256:12"`, "does not match pattern"},
	"image.pullPolicy":                   {`"Sometimes"`, "must be one of"},
	"imagePullSecrets.0.name":            {`""`, "minLength"},
	"replicas":                           {`-1`, "want 0"},
	"serviceAccount.name":                {`"Mine"`, "does not match pattern"},
	"defaultRedisInstance.name":          {`"Shared"`, "does not match pattern"},
	"defaultRedisInstance.namespace":     {`"Redis"`, "does not match pattern"},
	"logLevel":                           {`"loud"`, "must be one of"},
	"extraArgs.0":                        {`"verbose"`, "does not match pattern"},
	"metrics.certificateSecret":          {`"Certs"`, "does not match pattern"},
	"metrics.serviceMonitor.interval":    {`"often"`, "does not match pattern"},
	"metrics.serviceMonitor.labels":      {`{"app.kubernetes.io/name":"x"}`, "app.kubernetes.io~1name"},
	"networkPolicy.metricsFrom.0":        {`{}`, "minProperties"},
	"podDisruptionBudget.maxUnavailable": {`"half"`, "does not match pattern"},
	"podAnnotations":                     {`{"kubectl.kubernetes.io/default-container":"x"}`, "default-container"},
	"podLabels":                          {`{"app.kubernetes.io/instance":"x"}`, "app.kubernetes.io~1instance"},
	"priorityClassName":                  {`"High"`, "does not match pattern"},
	"terminationGracePeriodSeconds":      {`-1`, "want 0"},
}

// leaves are the values of values.yaml that are not made of others.
func leaves(t *testing.T) map[string]any {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(content, &values); err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	var walk func(string, map[string]any)
	walk = func(path string, values map[string]any) {
		for name, value := range values {
			// Both hold what others define, and are handed on as they are.
			inner, isObject := value.(map[string]any)
			if isObject && len(inner) > 0 && name != "resources" && name != "tlsConfig" {
				walk(path+name+".", inner)
				continue
			}
			found[path+name] = value
		}
	}
	walk("", values)
	return found
}

// schemaLeaves are the values that the schema knows, with the schema of each.
func schemaLeaves(t *testing.T) map[string]map[string]any {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(content, &schema); err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]any{}
	var walk func(string, map[string]any)
	walk = func(path string, schema map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			if inner, _ := property.(map[string]any); inner["additionalProperties"] == false {
				walk(path+name+".", inner)
			} else {
				found[path+name] = inner
			}
		}
	}
	walk("", schema)
	// Helm hands it down from a parent chart.
	delete(found, "global")
	return found
}

func TestEveryValueHasSchemaAndCase(t *testing.T) {
	t.Parallel()
	values, schema, cases := slices.Sorted(maps.Keys(leaves(t))), slices.Sorted(maps.Keys(schemaLeaves(t))), slices.Sorted(maps.Keys(changed))
	if !slices.Equal(values, schema) {
		t.Errorf("values.yaml has %q\nvalues.schema.json has %q", values, schema)
	}
	if !slices.Equal(values, cases) {
		t.Errorf("values.yaml has %q\nthe cases are for %q", values, cases)
	}
	for path := range refused {
		base, _, _ := strings.Cut(path, ".0")
		if !slices.Contains(values, base) {
			t.Errorf("a value that does not exist is refused: %s", path)
		}
	}
}

func TestEveryValueChangesSomething(t *testing.T) {
	t.Parallel()
	unchanged := map[string]objects{}
	for _, tc := range changed {
		if unchanged[tc.with] == nil {
			unchanged[tc.with] = render(t, "--set", tc.with)
		}
	}
	for path, tc := range changed {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			kind, pointer, _ := strings.Cut(tc.at, " ")
			before := lookup(t, unchanged[tc.with], kind, pointer)
			after := lookup(t, render(t, "--set", tc.with, "--set-json", path+"="+tc.value), kind, pointer)
			if tc.want == "" {
				if len(before) == 0 || len(after) != 0 {
					t.Errorf("%s=%s: %s is %s and then %s, want it to go", path, tc.value, tc.at, before, after)
				}
				return
			}
			if !slices.Contains(after, tc.want) || slices.Contains(before, tc.want) {
				t.Errorf("%s=%s: %s is %s and then %s, want %s then", path, tc.value, tc.at, before, after, tc.want)
			}
		})
	}
}

// lookup gives as JSON what is at a JSON pointer in the objects of a kind. A last element "*" stands for all elements.
func lookup(t *testing.T, all objects, kind, pointer string) []string {
	t.Helper()
	var found []string
	for _, object := range all {
		if object.GetKind() != kind {
			continue
		}
		for _, value := range at(object, pointer) {
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, string(text))
		}
	}
	return found
}

func at(object *unstructured.Unstructured, pointer string) []any {
	var value any = object.Object
	if pointer == "" {
		return []any{value}
	}
	for element := range strings.SplitSeq(pointer[1:], "/") {
		switch node := value.(type) {
		case map[string]any:
			value = node[strings.ReplaceAll(element, "~1", "/")]
		case []any:
			if element == "*" {
				return node
			}
			index, err := strconv.Atoi(element)
			if err != nil || index >= len(node) {
				return nil
			}
			value = node[index]
		}
		if value == nil {
			return nil
		}
	}
	return []any{value}
}

// Every value is tried with another type than it has, and as refused has it, all in one go: Helm lists all faults.
func TestRefusedTypesAndValues(t *testing.T) {
	t.Parallel()
	wrong := map[string]any{}
	for path, value := range leaves(t) {
		wrong[path] = []any{map[string]any{"no": "such"}, 1}
		if reflect.ValueOf(value).Kind() == reflect.Slice {
			wrong[path] = "no such"
		}
	}
	output := refusal(t, wrong)
	for path := range wrong {
		if line := faultAt(output, path); line == "" {
			t.Errorf("%s is accepted with another type; Helm says\n%s", path, output)
		}
	}
	bad := map[string]any{}
	for path, tc := range refused {
		var value any
		if err := json.Unmarshal([]byte(tc.value), &value); err != nil {
			t.Fatal(err)
		}
		bad[path] = value
	}
	output = refusal(t, bad)
	for path, tc := range refused {
		if line := faultAt(output, path); !strings.Contains(line, tc.want) {
			t.Errorf("%s=%s: the fault is %q, want it to say %q; Helm says\n%s", path, tc.value, line, tc.want, output)
		}
	}
}

// refusal gives Helm's message about values that it must refuse.
func refusal(t *testing.T, values map[string]any) string {
	t.Helper()
	args := []string{"template", "locks", chart}
	for path, value := range values {
		content, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "--set-json", fmt.Sprintf("%s=%s", strings.Replace(path, ".0", "[0]", 1), content))
	}
	output, err := helm(t, args...)
	if err == nil {
		t.Fatalf("%q is accepted", values)
	}
	return output
}

// faultAt gives the faults that Helm found at a path or below it.
func faultAt(output, path string) string {
	pointer := "- at '/" + strings.ReplaceAll(path, ".", "/")
	var found []string
	for line := range strings.SplitSeq(output, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, pointer+"'") || strings.HasPrefix(line, pointer+"/") {
			found = append(found, line)
		}
	}
	return strings.Join(found, "\n")
}
