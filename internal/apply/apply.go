// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply brings child objects to their desired state by server-side apply, and sends a request only when something differs.
package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner owns the fields that are applied.
const FieldOwner = "lockstead"

// AnnotationApplied has a digest of what was applied last: a field that is no longer wanted does not show in a comparison of the
// wanted ones.
const AnnotationApplied = "lockstead.dev/applied"

// ErrForeign says that an object of this name exists and belongs to somebody else. It is left alone.
var ErrForeign = errors.New("an object of this name belongs to somebody else")

// Object applies desired, an apply configuration, as a child of owner. Live is an empty object of the same kind, which the present
// state is read into; the reader has to see objects of others too, so a cache by label does not do. It reports whether something was sent.
func Object(ctx context.Context, reader client.Reader, c client.Client, owner types.UID, live client.Object, desired any) (changed bool, err error) {
	want, err := marked(desired)
	if err != nil {
		return false, err
	}
	name := want.GetKind() + " " + want.GetNamespace() + "/" + want.GetName()
	switch err := reader.Get(ctx, client.ObjectKeyFromObject(want), live); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, fmt.Errorf("get %s: %w", name, err)
	default:
		controller := metav1.GetControllerOf(live)
		if controller == nil || controller.UID != owner {
			return false, fmt.Errorf("%s: %w; delete or rename it", name, ErrForeign)
		}
		have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return false, fmt.Errorf("convert %s: %w", name, err)
		}
		if contains(have, withoutType(want.Object)) {
			return false, nil
		}
	}
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), client.FieldOwner(FieldOwner), client.ForceOwnership)
	if err != nil {
		return false, fmt.Errorf("apply %s: %w", name, err)
	}
	return true, nil
}

// Absent deletes the object that has the kind and name of live, if it is a child of owner. One of somebody else is left alone without an error, since
// nothing is wanted of it. It reports whether something was sent.
func Absent(ctx context.Context, reader client.Reader, c client.Client, owner types.UID, live client.Object) (changed bool, err error) {
	err = reader.Get(ctx, client.ObjectKeyFromObject(live), live)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	name := fmt.Sprintf("%T %s", live, client.ObjectKeyFromObject(live))
	if err != nil {
		return false, fmt.Errorf("get %s: %w", name, err)
	}
	controller := metav1.GetControllerOf(live)
	if controller == nil || controller.UID != owner || !live.GetDeletionTimestamp().IsZero() {
		return false, nil
	}
	uid, version := live.GetUID(), live.GetResourceVersion()
	err = c.Delete(ctx, live, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("delete %s: %w", name, err)
	}
	return true, nil
}

// marked is the apply configuration with the digest of itself.
func marked(desired any) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(desired)
	if err != nil {
		return nil, fmt.Errorf("encode the desired object: %w", err)
	}
	want := &unstructured.Unstructured{}
	if err := want.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("decode the desired object: %w", err)
	}
	digest := sha256.Sum256(text)
	annotations := want.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationApplied] = hex.EncodeToString(digest[:8])
	want.SetAnnotations(annotations)
	return want, nil
}

// withoutType leaves out what a typed client does not return.
func withoutType(object map[string]any) map[string]any {
	copied := make(map[string]any, len(object))
	for key, value := range object {
		if key != "apiVersion" && key != "kind" {
			copied[key] = value
		}
	}
	return copied
}

// contains reports whether have has everything that want has. Fields that the API server added are ignored, also within the elements of
// lists, which have to be as many and in the same order.
func contains(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return len(want) == 0 && have == nil
		}
		for key, value := range want {
			if !contains(have[key], value) {
				return false
			}
		}
		return true
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) != len(want) {
			return false
		}
		for i, value := range want {
			if !contains(have[i], value) {
				return false
			}
		}
		return true
	case nil:
		return have == nil
	default:
		return have == want
	}
}
