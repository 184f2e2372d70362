// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const fieldOwner = "lockstead-testcluster"

// Kube is the access to a cluster.
type Kube struct {
	Client     client.Client
	Clientset  kubernetes.Interface
	Kubeconfig string
}

// Connect reaches the cluster of a kubeconfig; without a name, that of the user's current context.
func Connect(kubeconfig string) (*Kube, error) {
	// Without a file, the user's usual one and its current context, as kubectl does.
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	rest, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	// Tests and demo poll; the client's default limit of 5 requests a second would make that the slowest part.
	rest.QPS, rest.Burst = 100, 200
	// The client logs nothing that its errors do not say.
	log.SetLogger(logr.Discard())
	objects, err := client.New(rest, client.Options{})
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, err
	}
	return &Kube{Client: objects, Clientset: clientset, Kubeconfig: kubeconfig}, nil
}

func isNotFound(err error) bool { return apierrors.IsNotFound(err) }

// ReadManifests decodes the objects of a YAML file.
func ReadManifests(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var objects []*unstructured.Unstructured
	for {
		var document runtime.RawExtension
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(document.Raw) == 0 || string(document.Raw) == "null" {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(document.Raw); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		objects = append(objects, object)
	}
}

// Apply applies an object by server-side apply.
func (k *Kube) Apply(ctx context.Context, object *unstructured.Unstructured) error {
	err := k.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// WaitReady waits until the object's condition Ready is true, and tells what the object says meanwhile.
func (k *Kube) WaitReady(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey, limit time.Duration, tell func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last := ""
	for {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		err := k.Client.Get(ctx, key, object)
		state, ready := "not there yet", false
		if err == nil {
			state, ready = readiness(object)
		} else if ctx.Err() == nil && !isNotFound(err) {
			return err
		}
		if ready {
			return nil
		}
		if state != last && ctx.Err() == nil {
			last = state
			tell(fmt.Sprintf("%s %s: %s", kind.Kind, key, state))
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("%s %s is not ready after %s: %s", kind.Kind, key, limit, last)
		}
	}
}

// readiness gives the condition Ready in words. One that was set for an older generation does not count.
func readiness(object *unstructured.Unstructured) (state string, ready bool) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, raw := range conditions {
		condition, ok := raw.(map[string]any)
		if !ok || condition["type"] != "Ready" {
			continue
		}
		if observed, ok := condition["observedGeneration"].(int64); ok && observed != object.GetGeneration() {
			return "the operator has not seen the change yet", false
		}
		return strings.TrimSpace(fmt.Sprintf("%v: %v", condition["reason"], condition["message"])), condition["status"] == "True"
	}
	return "the operator has not looked at it yet", false
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
