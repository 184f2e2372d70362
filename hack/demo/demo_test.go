// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestBootClockIsNeverAhead(t *testing.T) {
	t.Parallel()
	origin := time.Unix(1000, 0)
	at := func(ms int) time.Time { return origin.Add(time.Duration(ms) * time.Millisecond) }
	// The node's clock is 5 s ahead of the local one; the records need different times to arrive.
	var c bootClock
	for _, record := range []struct{ made, arrived int }{{0, 400}, {100, 130}, {200, 900}, {150, 950}} {
		c.observe(5*time.Second+time.Duration(record.made)*time.Millisecond, at(record.arrived))
	}
	truth := 6 * time.Second // at 1000 ms
	got := c.at(at(1000))
	if got > truth {
		t.Errorf("the estimate %s is ahead of the node's %s", got, truth)
	}
	if truth-got != 30*time.Millisecond {
		t.Errorf("the estimate is %s behind, want the 30 ms of the quickest record", truth-got)
	}
}

func TestResultLine(t *testing.T) {
	t.Parallel()
	line := result{backend: "redis", sections: 41, takeOver: 4240 * time.Millisecond}.String()
	if want := "demo ok: backend=redis replicas=3 sections=41 overlaps=0 takeover=4.2s"; line != want {
		t.Errorf("line %q, want %q", line, want)
	}
}

func TestAdaptedExample(t *testing.T) {
	t.Parallel()
	objects, err := readManifests("../../" + workerFile)
	if err != nil {
		t.Fatal(err)
	}
	var deployment *unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			deployment = object
		}
	}
	if deployment == nil || deployment.GetName() != workerName {
		t.Fatalf("%s has no Deployment %s", workerFile, workerName)
	}
	if got, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas"); got != replicas {
		t.Errorf("the example has %d replicas, the demo says %d", got, replicas)
	}
	if err := adapt(deployment, "example/worker:1"); err != nil {
		t.Fatal(err)
	}
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	container := containers[0].(map[string]any)
	args, _, err := unstructured.NestedStringSlice(container, "args")
	if err != nil {
		t.Fatal(err)
	}
	if container["image"] != "example/worker:1" || !slices.Contains(args, "--graceful-stop=false") {
		t.Errorf("container: %v", container)
	}
	affinity, found, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	if err != nil || !found || len(affinity) != 1 {
		t.Errorf("the replicas may run on different nodes, whose clocks cannot be compared: %v, %v", affinity, err)
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	object := func(status string, observed int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"generation": int64(2)},
			"status": map[string]any{"conditions": []any{
				map[string]any{"type": "Accepted", "status": "True", "reason": "Accepted"},
				map[string]any{"type": "Ready", "status": status, "reason": "NotYet", "message": "the server starts", "observedGeneration": observed},
			}},
		}}
	}
	for name, tc := range map[string]struct {
		object    *unstructured.Unstructured
		wantReady bool
		wantState string
	}{
		"ready":                {object("True", 2), true, "NotYet: the server starts"},
		"not ready":            {object("False", 2), false, "the server starts"},
		"of an older spec":     {object("True", 1), false, "has not seen the change"},
		"not looked at so far": {&unstructured.Unstructured{Object: map[string]any{}}, false, "not looked at it"},
	} {
		state, ready := readiness(tc.object)
		if ready != tc.wantReady || !strings.Contains(state, tc.wantState) {
			t.Errorf("%s: ready %t, %q", name, ready, state)
		}
	}
}

func TestView(t *testing.T) {
	t.Parallel()
	v := view{backend: "lease", pods: 3, sections: 7, rows: []row{
		{key: "order-1", pod: "worker-a", token: "1.2", held: 1200 * time.Millisecond},
		{key: "order-2", pod: "worker-b", token: "1.9", held: 6 * time.Second, dead: true},
	}}
	if line := v.line(); !strings.Contains(line, "order-1: worker-a  order-2: worker-b (dead)") || strings.Contains(line, "\n") {
		t.Errorf("line: %q", line)
	}
	table := v.table()
	for _, want := range []string{`order-1 +worker-a +1\.2 +1\.2s\n`, `order-2 .* 6\.0s +the holder is dead`} {
		if !regexp.MustCompile(want).MatchString(table) {
			t.Errorf("the table does not match %q:\n%s", want, table)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"CLUSTER": "existing", "KEEP": "1", "IMAGE_TAG": "v2"}
	c := configFromEnvironment(func(name string) string { return environment[name] })
	if !c.existing || !c.keep || c.image("lockstead") != "localhost/lockstead:v2" {
		t.Errorf("config: %+v", c)
	}
	if c := configFromEnvironment(func(string) string { return "" }); c.existing || c.keep {
		t.Errorf("config of an empty environment: %+v", c)
	}
}
