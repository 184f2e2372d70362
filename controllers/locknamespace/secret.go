// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/pkg/binding"
)

// ownEntries are the entries of the Secret that the operator writes and removes. Entries that people added stay.
var ownEntries = []string{
	binding.KeyType, binding.KeyProvider, binding.KeyLockNamespace, binding.KeyPrefix, binding.KeyInstance, binding.KeyTTLDefault,
	binding.KeyTTLMax, binding.KeyHost, binding.KeyPort, binding.KeyUsername, binding.KeyPassword, binding.KeyURI, binding.KeyTLS,
	binding.KeyCA, binding.KeyAccess, binding.KeyRecordsShare, binding.KeyRecordsMaxResponse, binding.KeyEpoch, binding.KeyFallbackCondition, binding.KeyFallbackFix,
}

// bindingSecret is the Secret of a LockNamespace as the API server has it.
type bindingSecret struct {
	// object is nil when there is none, or a foreign one.
	object *corev1.Secret
	// foreign: a Secret of this name exists that was not made for this LockNamespace.
	foreign bool
}

func (s bindingSecret) data() map[string][]byte {
	if s.object == nil {
		return nil
	}
	return s.object.Data
}

// readSecret reads from the API server, since the operator must not hold other people's Secrets in its memory.
func (c *Controller) readSecret(ctx context.Context, lns *v1alpha1.LockNamespace) (bindingSecret, error) {
	secret := &corev1.Secret{}
	err := c.reader.Get(ctx, types.NamespacedName{Namespace: lns.Namespace, Name: secretName(lns)}, secret)
	if apierrors.IsNotFound(err) {
		return bindingSecret{}, nil
	}
	if err != nil {
		return bindingSecret{}, fmt.Errorf("get Secret %s: %w", secretName(lns), err)
	}
	if !metav1.IsControlledBy(secret, lns) {
		return bindingSecret{foreign: true}, nil
	}
	return bindingSecret{object: secret}, nil
}

// restoreRecord takes the recorded backend from the Secret when the status was lost, for example with a backup that was restored without
// it: a bound LockNamespace must not be bound a second time. It reports whether there was one.
//
// Whoever may write Secrets can forge one, so the record is believed only as far as the spec could ask for the same, and does not tell that the
// backend was programmed: a server that lacks what was programmed is taken for one that lost its data.
func restoreRecord(lns *v1alpha1.LockNamespace, secret bindingSecret) bool {
	if lns.Status.Backend != "" || secret.object == nil {
		return false
	}
	prefix := redisinstance.PrefixOf(lns)
	if lns.Spec.ShareFrom != nil {
		prefix = string(secret.object.Data[binding.KeyPrefix]) // It is compared with the owner's.
	}
	var t target
	switch binding.Type(secret.object.Data[binding.KeyType]) {
	case binding.TypeLease:
		t = target{backend: v1alpha1.BackendLease}
	case binding.TypeRedis:
		namespace, name, found := strings.Cut(secret.object.Annotations[annotationInstance], "/")
		uid := types.UID(secret.object.Data[binding.KeyInstance])
		if !found || uid == "" {
			return false
		}
		t = target{backend: v1alpha1.BackendRedis, instance: types.NamespacedName{Namespace: namespace, Name: name}, uid: uid}
	default:
		return false
	}
	if asked := named(lns); asked.Name != "" && t.instance != asked {
		return false
	}
	record(lns, t, prefix)
	return true
}

// writeSecret makes the Secret say what b and the annotations of the rotation say.
func (c *Controller) writeSecret(ctx context.Context, lns *v1alpha1.LockNamespace, present bindingSecret, b *binding.Binding, rotation map[string]string) error {
	entries, err := b.Encode()
	if err != nil {
		return fmt.Errorf("encode the binding: %w", err)
	}
	annotations := maps.Clone(rotation)
	if annotations == nil {
		annotations = map[string]string{}
	}
	if ref := lns.Status.InstanceRef; ref != nil {
		annotations[annotationInstance] = ref.Namespace + "/" + ref.Name
	}
	if present.object == nil {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: lns.Namespace, Name: secretName(lns), Labels: childLabels(lns), Annotations: annotations,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(lns, v1alpha1.GroupVersion.WithKind("LockNamespace"))},
			},
			Type: corev1.SecretType(b.Type.SecretType()),
			Data: entries,
		}
		if err := c.client.Create(ctx, secret); err != nil {
			return fmt.Errorf("create Secret %s: %w", secret.Name, err)
		}
		return nil
	}
	wanted := present.object.DeepCopy()
	if !adjust(wanted, childLabels(lns), annotations, entries) {
		return nil
	}
	// With the version that was read: entries that somebody else wrote in between are not lost.
	patch := client.MergeFromWithOptions(present.object, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, wanted, patch); err != nil {
		return fmt.Errorf("patch Secret %s: %w", wanted.Name, err)
	}
	return nil
}

// adjust changes what is the operator's in a Secret, and reports whether anything differed.
func adjust(secret *corev1.Secret, labels, annotations map[string]string, entries map[string][]byte) (changed bool) {
	changed = setAll(&secret.Labels, labels) || changed
	changed = setAll(&secret.Annotations, annotations) || changed
	for _, name := range rotationAnnotations {
		if _, want := annotations[name]; want {
			continue
		}
		if _, have := secret.Annotations[name]; have {
			delete(secret.Annotations, name)
			changed = true
		}
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for _, name := range ownEntries {
		value, want := entries[name]
		present, have := secret.Data[name]
		switch {
		case want && (!have || !bytes.Equal(present, value)):
			secret.Data[name], changed = value, true
		case !want && have:
			delete(secret.Data, name)
			changed = true
		}
	}
	return changed
}

func setAll(present *map[string]string, wanted map[string]string) (changed bool) {
	for key, value := range wanted {
		if have, ok := (*present)[key]; ok && have == value {
			continue
		}
		if *present == nil {
			*present = map[string]string{}
		}
		(*present)[key], changed = value, true
	}
	return changed
}
