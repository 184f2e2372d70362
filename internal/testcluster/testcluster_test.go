// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
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

func TestAdaptedExample(t *testing.T) {
	t.Parallel()
	objects, err := ReadManifests("../../" + workerFile)
	if err != nil {
		t.Fatal(err)
	}
	var deployment *unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			deployment = object
		}
	}
	if deployment == nil || deployment.GetName() != WorkerName {
		t.Fatalf("%s has no Deployment %s", workerFile, WorkerName)
	}
	if got, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas"); got != Replicas {
		t.Errorf("the example has %d replicas, the demo says %d", got, Replicas)
	}
	if err := adapt(deployment, "example/worker:1", []string{"--graceful-stop=false"}); err != nil {
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
	if !slices.Contains(args, "--keys=order-1,order-2,order-3") {
		t.Errorf("YAML has split the arguments: %q", args)
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

func TestConfig(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"CLUSTER": "existing", "KEEP": "1", "IMAGE_TAG": "v2"}
	c := ConfigFromEnvironment("/src", func(name string) string { return environment[name] })
	if !c.Existing || !c.Keep || c.Image("lockstead") != "localhost/lockstead:v2" {
		t.Errorf("config: %+v", c)
	}
	if c := ConfigFromEnvironment("/src", func(string) string { return "" }); c.Existing || c.Keep {
		t.Errorf("config of an empty environment: %+v", c)
	}
}
