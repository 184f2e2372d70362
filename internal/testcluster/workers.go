// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Replicas is how many workers the example has.
	Replicas = 3
	// WorkerName is the name of the example's LockNamespace and Deployment.
	WorkerName = "worker"

	workerFile = "examples/worker/deploy/worker.yaml"
)

// Kind is one of the product's kinds.
func Kind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "lockstead.dev", Version: "v1alpha1", Kind: kind}
}

// CreateNamespace makes a namespace that enforces restricted pod security.
func (c *Cluster) CreateNamespace(ctx context.Context, name string) error {
	return c.Apply(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}},
	}})
}

// DeployWorkers makes the namespace and applies the example as it is published, with further arguments, and with what watching it needs
// changed: the image just built; workers that die at once when they are told to stop, as a crash would end them; and all on one node, so that
// one clock stamps the records of all. It returns when the LockNamespace is ready, and tells its state meanwhile.
func (c *Cluster) DeployWorkers(ctx context.Context, namespace string, tell func(string), args ...string) error {
	objects, err := ReadManifests(filepath.Join(c.config.Root, workerFile))
	if err != nil {
		return err
	}
	if err := c.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	for _, object := range objects {
		object.SetNamespace(namespace)
		if object.GetKind() == "Deployment" {
			if err := adapt(object, c.config.Image("lockstead-worker"), append([]string{"--graceful-stop=false"}, args...)); err != nil {
				return fmt.Errorf("%s: %w", workerFile, err)
			}
		}
		if err := c.Apply(ctx, object); err != nil {
			return err
		}
	}
	return c.WaitReady(ctx, Kind("LockNamespace"), client.ObjectKey{Namespace: namespace, Name: WorkerName}, time.Minute, tell)
}

func adapt(deployment *unstructured.Unstructured, image string, further []string) error {
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
	if err := unstructured.SetNestedStringSlice(container, append(args, further...), "args"); err != nil {
		return err
	}
	container["image"] = image
	container["imagePullPolicy"] = "IfNotPresent"
	if err := unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		return err
	}
	return unstructured.SetNestedSlice(deployment.Object, []any{map[string]any{
		"topologyKey":   "kubernetes.io/hostname",
		"labelSelector": map[string]any{"matchLabels": map[string]any{"app": WorkerName}},
	}}, "spec", "template", "spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
}

// DeleteWorkers deletes the Deployment and, before it answers, its pods.
func (c *Cluster) DeleteWorkers(ctx context.Context, namespace string) error {
	deployment := &unstructured.Unstructured{}
	deployment.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	deployment.SetNamespace(namespace)
	deployment.SetName(WorkerName)
	return c.Client.Delete(ctx, deployment, client.PropagationPolicy("Foreground"))
}

// Explain prints what helps to understand a failure of the workers in a namespace.
func (c *Cluster) Explain(ctx context.Context, namespace string, tell func(string)) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, args := range [][]string{
		{"--namespace", namespace, "get", "locknamespaces,pods,secrets,leases", "-o", "wide"},
		{"--namespace", namespace, "get", "locknamespaces", "-o", "yaml"},
		{"--namespace", namespace, "get", "events", "--sort-by=.lastTimestamp"},
		{"--namespace", namespace, "logs", "--selector", "app=" + WorkerName, "--prefix", "--tail=15"},
		{"--namespace", OperatorNamespace, "get", "redisinstances,pods,statefulsets,pvc", "-o", "wide"},
		{"--namespace", OperatorNamespace, "get", "redisinstances", "-o", "yaml"},
		{"--namespace", OperatorNamespace, "get", "events", "--sort-by=.lastTimestamp"},
		{"--namespace", OperatorNamespace, "logs", "deployment/" + Release, "--tail=40"},
	} {
		tell(fmt.Sprintf("kubectl %v", args))
		if err := c.Show(ctx, args...); err != nil {
			tell(err.Error())
		}
	}
}
