// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lockstead/lockstead/controllers/controllertest"
)

var environment *controllertest.Environment

func TestMain(m *testing.M) { os.Exit(controllertest.Run(m, &environment)) }

// object is a manifest in the test's namespace. An empty name is generated from the test's.
func object(t *testing.T, namespace, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if spec != "" {
		var value any
		if err := yaml.Unmarshal([]byte(spec), &value); err != nil {
			t.Fatal(err)
		}
		u.Object["spec"] = value
	}
	u.SetAPIVersion("lockstead.dev/v1alpha1")
	u.SetKind(kind)
	u.SetNamespace(namespace)
	if name == "" {
		u.SetGenerateName("x-")
	} else {
		u.SetName(name)
	}
	return u
}

const (
	lns = "LockNamespace"
	ri  = "RedisInstance"
)

// everything sets every field of a managed RedisInstance.
const everything = `{mode: Managed, allowedNamespaces: {from: All}, limits: {maxTTL: 2h, maxLockNamespaces: 5000, customPrefixes: Allowed, recordMemoryPercent: 70}, deletionProtection: Disabled,
managed: {engine: Redis, version: '8.0', memory: 1Gi, cpuRequest: 250m, fsync: EverySecond, storage: {size: 2Gi, storageClassName: fast, whenDeleted: Delete},
imagePullSecrets: [{name: pull}], tls: {mode: Secret, secretName: cert}, networkPolicy: Disabled, podDisruptionBudget: Disabled, securityProfile: PlatformManaged,
scheduling: {nodeSelector: {disk: ssd}, tolerations: [{key: locks, operator: Exists}], priorityClassName: high, affinity: {nodeAffinity: {}}},
podMetadata: {labels: {team: a}, annotations: {example.com/b: c}}}}`

func TestAccepted(t *testing.T) {
	namespace := environment.Namespace(t, nil)
	for name, tc := range map[string]struct{ kind, name, spec string }{
		"no spec":                       {lns, "", ""},
		"empty spec":                    {lns, "", "{}"},
		"longest name":                  {lns, strings.Repeat("a", 63), "{}"},
		"instance in the namespace":     {lns, "", "instanceRef: {name: locks}"},
		"instance elsewhere":            {lns, "", "instanceRef: {name: locks, namespace: lock-system}"},
		"durations":                     {lns, "", "ttl: {default: 1s, max: 24h}"},
		"mixed duration":                {lns, "", "ttl: {default: 1m30s, max: 1h0m0s}"},
		"equal durations":               {lns, "", "ttl: {default: 30s, max: 30s}"},
		"only the maximum":              {lns, "", "ttl: {max: 5m}"},
		"consumers":                     {lns, "", "consumers: [default, worker.v2]"},
		"Secret name":                   {lns, "", "binding: {secretName: my-locks}"},
		"managed without a block":       {ri, "", "mode: Managed"},
		"managed, everything":           {ri, "", everything},
		"managed, TLS disabled":         {ri, "", "{mode: Managed, managed: {tls: {mode: Disabled}}}"},
		"external, static":              {ri, "", "{mode: External, external: {host: r, aclManagement: Static, tenantCredentials: {secretName: app}, adminCredentials: {secretName: admin}}}"},
		"prefix":                        {lns, "", "prefix: team/a_b.c-1"},
		"share from":                    {lns, "", "shareFrom: {namespace: orders, name: shop}"},
		"share with":                    {lns, "", "shareWith: [{namespace: a}, {namespace: a, name: b}]"},
		"rotation":                      {lns, "", "credentials: {rotationInterval: 720h, overlap: 2m, rotationCounter: 1}"},
		"records":                       {lns, "", "idempotencyRecords: {}"},
		"records with a response size":  {lns, "", "idempotencyRecords: {memory: 64Ki, maxResponseSize: 8Ki}"},
		"no memory for records":         {ri, "", "{mode: Managed, limits: {recordMemoryPercent: 0}}"},
		"managed, image":                {ri, "", "{mode: Managed, managed: {image: 'registry.example.com:5000/valkey@sha256:0123'}}"},
		"managed, memory as a number":   {ri, "", "{mode: Managed, managed: {memory: 134217728}}"},
		"longest instance name":         {ri, strings.Repeat("a", 40), "mode: Managed"},
		"selector":                      {ri, "", "{mode: Managed, allowedNamespaces: {from: Selector, selector: {matchLabels: {locks: 'true'}}}}"},
		"external":                      {ri, "", "{mode: External, external: {host: redis.example.com, adminCredentials: {secretName: admin}}}"},
		"external, IPv6, without TLS":   {ri, "", "{mode: External, external: {host: 'fd00::1', port: 6380, tls: {mode: Disabled}, adminCredentials: {secretName: admin}}}"},
		"external with the widest port": {ri, "", "{mode: External, external: {host: r, port: 65535, adminCredentials: {secretName: admin}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := environment.Admin.Create(t.Context(), object(t, namespace, tc.kind, tc.name, tc.spec)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	namespace := environment.Namespace(t, nil)
	const limits = "limits: {maxTTL: 1h, maxLockNamespaces: 500, customPrefixes: Forbidden, recordMemoryPercent: 50}"
	for name, tc := range map[string]struct{ kind, spec, want string }{
		"records":                {lns, "idempotencyRecords: {}", "{consumers: [default], ttl: {default: 30s, max: 1h}, credentials: {overlap: 24h}, idempotencyRecords: {memory: 16Mi, maxResponseSize: 64Ki}}"},
		"LockNamespace":          {lns, "{}", "{consumers: [default], ttl: {default: 30s, max: 1h}, credentials: {overlap: 24h}}"},
		"managed RedisInstance":  {ri, "mode: Managed", "{mode: Managed, allowedNamespaces: {from: Same}, deletionProtection: WhileInUse, " + limits + "}"},
		"external RedisInstance": {ri, "{mode: External, external: {host: r, adminCredentials: {secretName: a}}}", "{mode: External, allowedNamespaces: {from: Same}, deletionProtection: WhileInUse, " + limits + ", external: {host: r, port: 6379, tls: {mode: Verify}, aclManagement: Operator, adminCredentials: {secretName: a}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			u := object(t, namespace, tc.kind, "", tc.spec)
			if err := environment.Admin.Create(t.Context(), u); err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(u.Object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			var value any
			if err := yaml.Unmarshal([]byte(tc.want), &value); err != nil {
				t.Fatal(err)
			}
			want, err := yaml.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("spec is\n%swant\n%s", got, want)
			}
		})
	}
}

// Each message says what to write instead.
func TestRefused(t *testing.T) {
	namespace := environment.Namespace(t, nil)
	const (
		duration = "write a duration from 1s to 24h in whole seconds"
		external = "external: {host: r, adminCredentials: {secretName: a}}"
	)
	for name, tc := range map[string]struct{ kind, name, spec, want string }{
		"name with a dot":               {lns, "a.b", "{}", "at most 63 lower-case letters, digits and '-'"},
		"name too long":                 {lns, strings.Repeat("a", 64), "{}", "at most 63"},
		"instance without a name":       {lns, "", "instanceRef: {namespace: a}", "instanceRef.name: Required value"},
		"instance with a path":          {lns, "", "instanceRef: {name: a/b}", "write the name of a RedisInstance"},
		"instance name too long":        {lns, "", "instanceRef: {name: " + strings.Repeat("a", 41) + "}", "spec.instanceRef.name: Too long"},
		"instance namespace with a dot": {lns, "", "instanceRef: {name: a, namespace: b.c}", "write the name of a Kubernetes namespace"},
		"default above maximum":         {lns, "", "ttl: {default: 2h}", "ttl.default (30s unless set) must not be longer than ttl.max (1h unless set)"},
		"zero":                          {lns, "", "ttl: {default: 0s}", duration},
		"negative":                      {lns, "", "ttl: {default: -5s}", duration},
		"parts of a second":             {lns, "", "ttl: {default: 1500ms}", duration},
		"a number":                      {lns, "", "ttl: {default: 30}", "must be of type string"},
		"a day and a second":            {lns, "", "ttl: {max: 24h1s}", duration},
		"consumer with its namespace":   {lns, "", "consumers: ['system:serviceaccount:a:b']", "without the namespace and without 'system:serviceaccount:'"},
		"no consumer":                   {lns, "", "consumers: []", "spec.consumers"},
		"consumer twice":                {lns, "", "consumers: [a, a]", "Duplicate value"},
		"Secret name with capitals":     {lns, "", "binding: {secretName: My}", "write the name of a Secret"},
		"empty binding":                 {lns, "", "binding: {}", "spec.binding"},

		"prefix with a glob":          {lns, "", "prefix: 'a*'", "write a prefix of lower-case letters"},
		"prefix with a colon":         {lns, "", "prefix: 'a:b'", "write a prefix of lower-case letters"},
		"prefix with braces":          {lns, "", "prefix: 'a}b'", "write a prefix of lower-case letters"},
		"prefix with an empty part":   {lns, "", "prefix: a//b", "single '/'"},
		"prefix too long":             {lns, "", "prefix: " + strings.Repeat("a", 129), "spec.prefix: Too long"},
		"shared prefix with a prefix": {lns, "", "{prefix: a, shareFrom: {namespace: a, name: b}}", "leave out prefix, instanceRef and shareWith"},
		"shared with an instance":     {lns, "", "{instanceRef: {name: a}, shareFrom: {namespace: a, name: b}}", "leave out prefix, instanceRef and shareWith"},
		"shared on":                   {lns, "", "{shareWith: [{namespace: c}], shareFrom: {namespace: a, name: b}}", "leave out prefix, instanceRef and shareWith"},
		"share from nobody":           {lns, "", "shareFrom: {namespace: a}", "spec.shareFrom.name: Required value"},
		"share with a name alone":     {lns, "", "shareWith: [{name: a}]", "namespace: Required value"},
		"overlap above the interval":  {lns, "", "credentials: {rotationInterval: 24h}", "credentials.overlap (24h unless set) has to be shorter"},
		"overlap too short":           {lns, "", "credentials: {overlap: 10s}", "write a duration from 2m to 720h"},
		"rotation every minute":       {lns, "", "credentials: {rotationInterval: 1m, overlap: 2m}", "write a duration from 1h to 8784h"},
		"rotation counter zero":       {lns, "", "credentials: {rotationCounter: 0}", "greater than or equal to 1"},

		"records of a sharer":       {lns, "", "{idempotencyRecords: {}, shareFrom: {namespace: a, name: b}}", "set them on the owner"},
		"little memory for records": {lns, "", "idempotencyRecords: {memory: 1Ki}", "write an amount of memory from 64Ki to 16Gi"},
		"responses without end":     {lns, "", "idempotencyRecords: {memory: 1Gi, maxResponseSize: 5Mi}", "write a size from 1Ki to 4Mi"},
		"responses above the share": {lns, "", "idempotencyRecords: {memory: 256Ki}", "maxResponseSize (64Ki unless set) can be an eighth of memory (16Mi unless set) at most"},
		"records as a text":         {lns, "", "idempotencyRecords: {memory: much}", "spec.idempotencyRecords.memory"},
		"all memory for records":    {ri, "", "{mode: Managed, limits: {recordMemoryPercent: 71}}", "less than or equal to 70"},

		"no mode":                    {ri, "", "{}", "spec.mode: Required value"},
		"unknown mode":               {ri, "", "mode: Sentinel", `supported values: "Managed", "External"`},
		"instance name with a dot":   {ri, "a.b", "mode: Managed", "at most 40 lower-case letters"},
		"instance name digit":        {ri, "1a", "mode: Managed", "begin with a letter"},
		"name over 40":               {ri, strings.Repeat("a", 41), "mode: Managed", "at most 40"},
		"external without block":     {ri, "", "mode: External", "mode External needs the block external"},
		"external with managed":      {ri, "", "{mode: External, managed: {image: a}, " + external + "}", "no block managed"},
		"managed with external":      {ri, "", "{mode: Managed, " + external + "}", "no block external"},
		"selector missing":           {ri, "", "{mode: Managed, allowedNamespaces: {from: Selector}}", "selector belongs to from: Selector"},
		"selector too much":          {ri, "", "{mode: Managed, allowedNamespaces: {from: All, selector: {}}}", "selector belongs to from: Selector"},
		"maximum":                    {ri, "", "{mode: Managed, limits: {maxTTL: 25h}}", duration},
		"version as a word":          {ri, "", "{mode: Managed, managed: {version: latest}}", `such as "8.1"`},
		"version too old":            {ri, "", "{mode: Managed, managed: {version: '6.2'}}", "write a version from 7.0 up"},
		"version and image":          {ri, "", "{mode: Managed, managed: {version: '8.1', image: a}}", "set version, or image, not both"},
		"unknown engine":             {ri, "", "{mode: Managed, managed: {engine: KeyDB}}", `supported values: "Valkey", "Redis"`},
		"image with a space":         {ri, "", "{mode: Managed, managed: {image: 'a b'}}", "write a container image"},
		"little memory":              {ri, "", "{mode: Managed, managed: {memory: 1Mi}}", "write an amount of memory from 32Mi"},
		"little memory, number":      {ri, "", "{mode: Managed, managed: {memory: 1024}}", "write an amount of memory from 32Mi"},
		"small volume":               {ri, "", "{mode: Managed, managed: {storage: {size: 1Mi}}}", "write a size from 64Mi"},
		"class with a slash":         {ri, "", "{mode: Managed, managed: {storage: {storageClassName: a/b}}}", "write the name of a StorageClass"},
		"no LockNamespaces":          {ri, "", "{mode: Managed, limits: {maxLockNamespaces: 0}}", "greater than or equal to 1"},
		"too many LockNamespaces":    {ri, "", "{mode: Managed, limits: {maxLockNamespaces: 5001}}", "less than or equal to 5000"},
		"TLS without a Secret":       {ri, "", "{mode: Managed, managed: {tls: {mode: Secret}}}", "secretName belongs to mode Secret"},
		"Secret without TLS":         {ri, "", "{mode: Managed, managed: {tls: {mode: Disabled, secretName: a}}}", "secretName belongs to mode Secret"},
		"TLS without a mode":         {ri, "", "{mode: Managed, managed: {tls: {secretName: a}}}", "mode: Required value"},
		"no fsync":                   {ri, "", "{mode: Managed, managed: {fsync: Never}}", `supported values: "Always", "EverySecond"`},
		"little CPU":                 {ri, "", "{mode: Managed, managed: {cpuRequest: 0}}", "write an amount of CPU from 1m to 64"},
		"pull Secret twice":          {ri, "", "{mode: Managed, managed: {imagePullSecrets: [{name: a}, {name: a}]}}", "Duplicate value"},
		"label of the operator":      {ri, "", "{mode: Managed, managed: {podMetadata: {labels: {lockstead.dev/a: b}}}}", "are the operator's"},
		"annotation of the operator": {ri, "", "{mode: Managed, managed: {podMetadata: {annotations: {lockstead.dev/boot: b}}}}", "are the operator's"},
		"affinity as a text":         {ri, "", "{mode: Managed, managed: {scheduling: {affinity: near}}}", "must be of type object"},
		"static without tenants":     {ri, "", "{mode: External, external: {host: r, aclManagement: Static, adminCredentials: {secretName: a}}}", "tenantCredentials belong to aclManagement: Static"},
		"tenants without static":     {ri, "", "{mode: External, external: {host: r, tenantCredentials: {secretName: b}, adminCredentials: {secretName: a}}}", "tenantCredentials belong to aclManagement: Static"},
		"host with a scheme":         {ri, "", "{mode: External, external: {host: 'redis://r', adminCredentials: {secretName: a}}}", "without scheme and port"},
		"no host":                    {ri, "", "{mode: External, external: {adminCredentials: {secretName: a}}}", "external.host: Required value"},
		"no credentials":             {ri, "", "{mode: External, external: {host: r}}", "adminCredentials: Required value"},
		"no name of credentials":     {ri, "", "{mode: External, external: {host: r, adminCredentials: {}}}", "secretName: Required value"},
		"port zero":                  {ri, "", "{mode: External, external: {host: r, port: 0, adminCredentials: {secretName: a}}}", "external.port"},
		"port too high":              {ri, "", "{mode: External, external: {host: r, port: 65536, adminCredentials: {secretName: a}}}", "external.port"},
		"unknown TLS mode":           {ri, "", "{mode: External, external: {host: r, tls: {mode: Skip}, adminCredentials: {secretName: a}}}", `supported values: "Verify", "Disabled"`},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, environment.Admin.Create(t.Context(), object(t, namespace, tc.kind, tc.name, tc.spec)), tc.want)
		})
	}
}

func TestChanges(t *testing.T) {
	namespace := environment.Namespace(t, nil)
	const (
		moved    = "locks do not move between backends"
		shrunk   = "managed.storage.size (1Gi unless set) can only grow"
		class    = "managed.storage.storageClassName is immutable"
		external = "external: {host: r, adminCredentials: {secretName: a}}"
	)
	for name, tc := range map[string]struct{ kind, before, after, refusal string }{
		"TTL":                    {lns, "{}", "ttl: {default: 10s, max: 1m}", ""},
		"consumers":              {lns, "{}", "consumers: [worker]", ""},
		"instance":               {lns, "instanceRef: {name: a}", "instanceRef: {name: b}", moved},
		"instance's namespace":   {lns, "instanceRef: {name: a}", "instanceRef: {name: a, namespace: other}", moved},
		"instance added":         {lns, "{}", "instanceRef: {name: a}", moved},
		"instance removed":       {lns, "instanceRef: {name: a}", "{}", moved},
		"Secret name":            {lns, "binding: {secretName: a}", "binding: {secretName: b}", "binding is immutable"},
		"Secret name added":      {lns, "{}", "binding: {secretName: b}", "binding cannot be added or removed"},
		"Secret name removed":    {lns, "binding: {secretName: b}", "{}", "binding cannot be added or removed"},
		"allowed namespaces":     {ri, "mode: Managed", "{mode: Managed, allowedNamespaces: {from: All}}", ""},
		"limits":                 {ri, "mode: Managed", "{mode: Managed, limits: {maxTTL: 5m}}", ""},
		"memory":                 {ri, "mode: Managed", "{mode: Managed, managed: {memory: 1Gi}}", ""},
		"version":                {ri, "{mode: Managed, managed: {version: '8.0'}}", "{mode: Managed, managed: {version: '8.1'}}", ""},
		"engine":                 {ri, "{mode: Managed, managed: {engine: Redis}}", "{mode: Managed, managed: {engine: Valkey}}", "engine is immutable"},
		"engine of a new block":  {ri, "mode: Managed", "{mode: Managed, managed: {engine: Redis}}", "engine is immutable"},
		"engine of a block gone": {ri, "{mode: Managed, managed: {engine: Redis}}", "mode: Managed", "engine is immutable"},
		"mode":                   {ri, "mode: Managed", "{mode: External, " + external + "}", "mode is immutable"},
		"host":                   {ri, "{mode: External, " + external + "}", "{mode: External, external: {host: s, adminCredentials: {secretName: a}}}", "host is immutable"},
		"port":                   {ri, "{mode: External, " + external + "}", "{mode: External, external: {host: r, port: 6380, adminCredentials: {secretName: a}}}", "port is immutable"},
		"credentials":            {ri, "{mode: External, " + external + "}", "{mode: External, external: {host: r, adminCredentials: {secretName: b}}}", ""},
		"size grows":             {ri, "{mode: Managed, managed: {storage: {size: 1Gi}}}", "{mode: Managed, managed: {storage: {size: 2Gi}}}", ""},
		"default size grows":     {ri, "mode: Managed", "{mode: Managed, managed: {storage: {size: 2Gi}}}", ""},
		"default size written":   {ri, "mode: Managed", "{mode: Managed, managed: {storage: {size: 1024Mi}}}", ""},
		"size shrinks":           {ri, "{mode: Managed, managed: {storage: {size: 2Gi}}}", "{mode: Managed, managed: {storage: {size: 1Gi}}}", shrunk},
		"default size shrinks":   {ri, "mode: Managed", "{mode: Managed, managed: {storage: {size: 512Mi}}}", shrunk},
		"block of storage gone":  {ri, "{mode: Managed, managed: {storage: {size: 2Gi}}}", "mode: Managed", shrunk},
		"storage class":          {ri, "{mode: Managed, managed: {storage: {storageClassName: a}}}", "{mode: Managed, managed: {storage: {storageClassName: b}}}", class},
		"storage class added":    {ri, "mode: Managed", "{mode: Managed, managed: {storage: {storageClassName: b}}}", class},
		"storage class removed":  {ri, "{mode: Managed, managed: {storage: {storageClassName: a}}}", "{mode: Managed, managed: {memory: 1Gi}}", class},
		"when deleted":           {ri, "mode: Managed", "{mode: Managed, managed: {storage: {whenDeleted: Delete}}}", ""},
		"TLS":                    {ri, "mode: Managed", "{mode: Managed, managed: {tls: {mode: Secret, secretName: a}}}", ""},
		"prefix":                 {lns, "prefix: a", "prefix: b", "prefix is immutable"},
		"prefix added":           {lns, "{}", "prefix: b", "prefix cannot be added or removed"},
		"prefix removed":         {lns, "prefix: a", "{}", "prefix cannot be added or removed"},
		"owner":                  {lns, "shareFrom: {namespace: a, name: b}", "shareFrom: {namespace: a, name: c}", "shareFrom is immutable"},
		"owner added":            {lns, "{}", "shareFrom: {namespace: a, name: c}", "shareFrom cannot be added or removed"},
		"owner removed":          {lns, "shareFrom: {namespace: a, name: c}", "{}", "shareFrom cannot be added or removed"},
		"shares":                 {lns, "{}", "shareWith: [{namespace: a}]", ""},
		"counter grows":          {lns, "credentials: {rotationCounter: 1}", "credentials: {rotationCounter: 2}", ""},
		"counter added":          {lns, "{}", "credentials: {rotationCounter: 7}", ""},
		"counter shrinks":        {lns, "credentials: {rotationCounter: 2}", "credentials: {rotationCounter: 1}", "rotationCounter can only grow"},
		"counter removed":        {lns, "credentials: {rotationCounter: 2}", "{}", "rotationCounter can only grow"},
	} {
		t.Run(name, func(t *testing.T) {
			u := object(t, namespace, tc.kind, "", tc.before)
			if err := environment.Admin.Create(t.Context(), u); err != nil {
				t.Fatal(err)
			}
			u.Object["spec"] = object(t, namespace, tc.kind, "", tc.after).Object["spec"]
			err := environment.Admin.Update(t.Context(), u)
			if tc.refusal == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refused(t, err, tc.refusal)
		})
	}
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v\nwant a refusal with %q", err, want)
	}
}

// Every sample can be applied as it is, twice.
func TestSamples(t *testing.T) {
	namespace := environment.Namespace(t, nil)
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n---\n") {
			u := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(part), &u.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			u.SetNamespace(namespace)
			for range 2 {
				u.SetManagedFields(nil)
				if err := environment.Admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test")); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		}
	}
}
