// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	replicas = 3
	lockTTL  = 5 * time.Second
	// takeOverLimit is what a take-over may last once the holder is dead: its lock runs out, and a waiter notices.
	takeOverLimit = lockTTL + 2*time.Second
	workerFile    = "examples/worker/deploy/worker.yaml"
	workerName    = "worker"
)

// phase is the demo on one backend.
type phase struct {
	backend   string
	namespace string
	// values are what the chart is told on top of the images.
	values []string
	// redisInstance is waited for, if there is one.
	redisInstance string
}

// phases are the backends in turn. The LockNamespace of both is the same; what differs is whether the platform team has set up Redis.
func phases(config config) []phase {
	return []phase{
		{
			backend:       "redis",
			namespace:     "demo-redis",
			values:        redisValues(config),
			redisInstance: "default",
		},
		{
			backend:   "lease",
			namespace: "demo-lease",
			values:    []string{"defaultRedisInstance.enabled=false"},
		},
	}
}

// result is what the last line says.
type result struct {
	backend  string
	sections int
	takeOver time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("demo ok: backend=%s replicas=%d sections=%d overlaps=0 takeover=%.1fs", r.backend, replicas, r.sections, r.takeOver.Seconds())
}

// run does the whole phase.
func (p phase) run(ctx context.Context, kube *kube, config config, out *console) (result, error) {
	out.step("backend %s: installing the operator with Helm", p.backend)
	if err := p.install(ctx, kube, config, out); err != nil {
		return result{}, err
	}
	out.step("backend %s: starting %d replicas of the worker in namespace %s", p.backend, replicas, p.namespace)
	if err := p.deploy(ctx, kube, config, out); err != nil {
		return result{}, err
	}
	followCtx, stop := context.WithCancel(ctx)
	defer stop()
	follower := follow(followCtx, kube, p.namespace, "app="+workerName)
	found, err := newObserver(p, kube, follower, out).observe(ctx)
	if err != nil {
		return result{}, err
	}
	restarted, err := follower.restarts(ctx)
	if err != nil {
		return result{}, err
	}
	if len(restarted) > 0 {
		return result{}, fmt.Errorf("workers crashed: %v", restarted)
	}
	stop()
	out.step("backend %s: stopping the workers", p.backend)
	return found, p.stop(ctx, kube)
}

func (p phase) install(ctx context.Context, kube *kube, config config, out *console) error {
	values, err := resolve(ctx, p.values)
	if err != nil {
		return err
	}
	if err := helmInstall(ctx, config, kube.kubeconfig, values...); err != nil {
		return err
	}
	if p.redisInstance == "" {
		return nil
	}
	return kube.waitReady(ctx, lockstead("RedisInstance"), client.ObjectKey{Namespace: operatorNamespace, Name: p.redisInstance}, 2*time.Minute, out.note)
}

func lockstead(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "lockstead.dev", Version: "v1alpha1", Kind: kind}
}

// deploy applies the example as it is published, with what a demo needs changed.
func (p phase) deploy(ctx context.Context, kube *kube, config config, out *console) error {
	objects, err := readManifests(workerFile)
	if err != nil {
		return err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": p.namespace, "labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}},
	}}
	if err := kube.apply(ctx, namespace); err != nil {
		return err
	}
	for _, object := range objects {
		object.SetNamespace(p.namespace)
		if object.GetKind() == "Deployment" {
			if err := adapt(object, config.image("lockstead-worker")); err != nil {
				return fmt.Errorf("%s: %w", workerFile, err)
			}
		}
		if err := kube.apply(ctx, object); err != nil {
			return err
		}
	}
	return kube.waitReady(ctx, lockstead("LockNamespace"), client.ObjectKey{Namespace: p.namespace, Name: workerName}, time.Minute, out.note)
}

// adapt makes the example's Deployment fit for the demo: the image just built; workers that die at once when they are told to stop, as a
// crash would end them; and all on one node, so that one clock stamps the records of all.
func adapt(deployment *unstructured.Unstructured, image string) error {
	containers, found, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil || !found || len(containers) != 1 {
		return fmt.Errorf("want a Deployment with one container: %w", err)
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		return errors.New("the container is not an object")
	}
	args, _, err := unstructured.NestedStringSlice(container, "args")
	if err != nil {
		return err
	}
	args = append(args, "--graceful-stop=false", "--ttl="+lockTTL.String(), "--section-min=500ms", "--section-max=1500ms")
	if err := unstructured.SetNestedStringSlice(container, args, "args"); err != nil {
		return err
	}
	container["image"] = image
	container["imagePullPolicy"] = "IfNotPresent"
	if err := unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		return err
	}
	return unstructured.SetNestedSlice(deployment.Object, []any{map[string]any{
		"topologyKey":   "kubernetes.io/hostname",
		"labelSelector": map[string]any{"matchLabels": map[string]any{"app": workerName}},
	}}, "spec", "template", "spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
}

// stop ends the workers, so that the next phase has the machine for itself.
func (p phase) stop(ctx context.Context, kube *kube) error {
	deployment := &unstructured.Unstructured{}
	deployment.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	deployment.SetNamespace(p.namespace)
	deployment.SetName(workerName)
	return kube.client.Delete(ctx, deployment, client.PropagationPolicy("Foreground"))
}

// explain prints what helps to understand a failure.
func (p phase) explain(ctx context.Context, out *console) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, args := range [][]string{
		{"--namespace", p.namespace, "get", "locknamespaces,pods,secrets,leases", "-o", "wide"},
		{"--namespace", p.namespace, "get", "locknamespaces", "-o", "yaml"},
		{"--namespace", p.namespace, "get", "events", "--sort-by=.lastTimestamp"},
		{"--namespace", p.namespace, "logs", "--selector", "app=" + workerName, "--prefix", "--tail=15"},
		{"--namespace", operatorNamespace, "get", "redisinstances,pods,statefulsets,pvc", "-o", "wide"},
		{"--namespace", operatorNamespace, "get", "redisinstances", "-o", "yaml"},
		{"--namespace", operatorNamespace, "get", "events", "--sort-by=.lastTimestamp"},
		{"--namespace", operatorNamespace, "logs", "deployment/" + release, "--tail=40"},
	} {
		out.step("kubectl %v", args)
		if err := command(ctx, clusterProgram, append([]string{"kubectl"}, args...)...); err != nil {
			out.note(err.Error())
		}
	}
}
