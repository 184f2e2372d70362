// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LockNamespaceSpec is what an application asks for. The empty one is useful.
//
// +kubebuilder:validation:XValidation:rule="has(oldSelf.instanceRef) == has(self.instanceRef)",message="instanceRef cannot be added or removed: locks do not move between backends; scale the application to zero, delete the LockNamespace and create it anew"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.binding) == has(self.binding)",message="binding cannot be added or removed: pods mount the Secret by its name"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.prefix) == has(self.prefix)",message="prefix cannot be added or removed: other keys are other locks; scale the application to zero, delete the LockNamespace and create it anew"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.shareFrom) == has(self.shareFrom)",message="shareFrom cannot be added or removed: other keys are other locks; scale the application to zero, delete the LockNamespace and create it anew"
// +kubebuilder:validation:XValidation:rule="!has(self.shareFrom) || (!has(self.prefix) && !has(self.instanceRef) && !has(self.shareWith))",message="shareFrom takes prefix and RedisInstance from the owner: leave out prefix, instanceRef and shareWith"
// +kubebuilder:validation:XValidation:rule="!has(self.shareFrom) || !has(self.idempotencyRecords)",message="idempotencyRecords belong to the LockNamespace that has the keys: leave them out beside shareFrom, and set them on the owner"
type LockNamespaceSpec struct {
	// instanceRef names the RedisInstance that keeps the locks. Defaults to the one that the operator was started with; without that too, locks
	// are kept as Leases in this namespace. It cannot be changed, since locks do not move between backends.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="instanceRef is immutable: locks do not move between backends; scale the application to zero, delete the LockNamespace and create it anew"
	InstanceRef *InstanceReference `json:"instanceRef,omitempty"`

	// prefix is used in the keys instead of "<namespace>/<name>". The RedisInstance has to allow it, and no other LockNamespace may have it.
	// Only on Redis.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9._/]*[a-z0-9])?$') && !self.contains('//') && !self.contains('..')",message="write a prefix of lower-case letters, digits, '.', '_', '-' and single '/', such as team/a"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="prefix is immutable: other keys are other locks; scale the application to zero, delete the LockNamespace and create it anew"
	Prefix string `json:"prefix,omitempty"`

	// shareFrom names a LockNamespace whose locks this one shares: its keys, its RedisInstance. The owner has to name this namespace in
	// shareWith. Only on Redis.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="shareFrom is immutable: other keys are other locks; scale the application to zero, delete the LockNamespace and create it anew"
	ShareFrom *LockNamespaceReference `json:"shareFrom,omitempty"`

	// shareWith are the LockNamespaces that may share the locks of this one by shareFrom. One that is taken off the list loses its access at once.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ShareWith []ShareGrant `json:"shareWith,omitempty"`

	// ttl bounds how long a lock outlives a holder that is gone.
	//
	// +optional
	// +kubebuilder:default={default: "30s", max: "1h"}
	TTL TTL `json:"ttl,omitzero"`

	// idempotencyRecords lets the application keep the records of repeated HTTP requests beside its locks, on the server that keeps them. Defaults to none. When it is
	// taken away the records are removed. Only on Redis.
	//
	// +optional
	IdempotencyRecords *IdempotencyRecords `json:"idempotencyRecords,omitempty"`

	// consumers are the service accounts of this namespace whose pods take locks. Only the Lease backend needs them, to grant the right to
	// write Leases; that right covers the Leases of the whole namespace.
	//
	// +optional
	// +listType=set
	// +kubebuilder:default={"default"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="a consumer is the name of a service account in this namespace: lower-case letters, digits, '-' and '.', without the namespace and without 'system:serviceaccount:'"
	Consumers []string `json:"consumers,omitempty"`

	// credentials are how often the password on the Redis server changes.
	//
	// +optional
	// +kubebuilder:default={overlap: "24h"}
	Credentials Credentials `json:"credentials,omitzero"`

	// binding is the Secret that the application mounts.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="binding is immutable: pods mount the Secret by its name"
	Binding BindingSpec `json:"binding,omitzero"`
}

// InstanceReference names a RedisInstance.
type InstanceReference struct {
	// name of the RedisInstance.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="write the name of a RedisInstance: lower-case letters, digits and '-'"
	Name string `json:"name,omitempty"`

	// namespace of the RedisInstance. Defaults to the namespace of the LockNamespace.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="write the name of a Kubernetes namespace: lower-case letters, digits and '-'"
	Namespace string `json:"namespace,omitempty"`
}

// LockNamespaceReference names a LockNamespace.
type LockNamespaceReference struct {
	// namespace of the LockNamespace.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="write the name of a Kubernetes namespace: lower-case letters, digits and '-'"
	Namespace string `json:"namespace,omitempty"`

	// name of the LockNamespace.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="write the name of a LockNamespace: lower-case letters, digits and '-'"
	Name string `json:"name,omitempty"`
}

// IdempotencyRecords are how much of the server's memory the records of HTTP requests may take. The server refuses records beyond it, and grants locks.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || !has(self.maxResponseSize) || quantity(string(self.maxResponseSize)).asApproximateFloat() * 8.0 <= quantity(string(self.memory)).asApproximateFloat()",message="maxResponseSize (64Ki unless set) can be an eighth of memory (16Mi unless set) at most"
type IdempotencyRecords struct {
	// memory is the share for all records together. A record takes its response and a quarter more, and at least 1216 bytes. Defaults to 16Mi.
	//
	// +optional
	// +kubebuilder:default="16Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Ki')) >= 0 && quantity(string(self)).compareTo(quantity('16Gi')) <= 0",message="write an amount of memory from 64Ki to 16Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`

	// maxResponseSize is the largest response that is kept. Of a larger one it is kept that the request was executed. Defaults to 64Ki.
	//
	// +optional
	// +kubebuilder:default="64Ki"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Ki')) >= 0 && quantity(string(self)).compareTo(quantity('4Mi')) <= 0",message="write a size from 1Ki to 4Mi"
	MaxResponseSize *resource.Quantity `json:"maxResponseSize,omitempty"`
}

// ShareGrant lets LockNamespaces share locks.
type ShareGrant struct {
	// namespace that may share.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="write the name of a Kubernetes namespace: lower-case letters, digits and '-'"
	Namespace string `json:"namespace,omitempty"`

	// name of the LockNamespace there that may share. Defaults to all of that namespace.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="write the name of a LockNamespace: lower-case letters, digits and '-'"
	Name string `json:"name,omitempty"`
}

// Credentials say when the password on the Redis server changes. The old and the new one work side by side for a while.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rotationInterval) || duration(self.overlap) < duration(self.rotationInterval)",message="credentials.overlap (24h unless set) has to be shorter than credentials.rotationInterval"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.rotationCounter) || (has(self.rotationCounter) && self.rotationCounter >= oldSelf.rotationCounter)",message="credentials.rotationCounter can only grow"
type Credentials struct {
	// rotationInterval is the time from one rotation to the next. Defaults to none: the password changes on demand only.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(s|m|h))+$') && duration(self) >= duration('1h') && duration(self) <= duration('8784h')",message="write a duration from 1h to 8784h in whole seconds, such as 720h"
	RotationInterval *metav1.Duration `json:"rotationInterval,omitempty"`

	// overlap is how long the old password works after the new one is in the Secret. It has to be longer than pods take to see a changed
	// Secret, which is a minute or two.
	//
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(s|m|h))+$') && duration(self) >= duration('2m') && duration(self) <= duration('720h')",message="write a duration from 2m to 720h in whole seconds, such as 24h"
	Overlap metav1.Duration `json:"overlap,omitzero"`

	// rotationCounter rotates the password now when it grows.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	RotationCounter int64 `json:"rotationCounter,omitempty"`
}

// TTL bounds the time to live of locks. Both are whole seconds, which is what every backend can keep.
//
// +kubebuilder:validation:XValidation:rule="duration(self.default) <= duration(self.max)",message="ttl.default (30s unless set) must not be longer than ttl.max (1h unless set)"
type TTL struct {
	// default is used by callers that give no TTL.
	//
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="write a duration from 1s to 24h in whole seconds, such as 30s, 5m or 1h30m"
	Default metav1.Duration `json:"default,omitzero"`

	// max is the longest TTL that a caller can ask for. The RedisInstance may allow less.
	//
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="write a duration from 1s to 24h in whole seconds, such as 30s, 5m or 1h30m"
	Max metav1.Duration `json:"max,omitzero"`
}

// BindingSpec is how the binding Secret is made.
//
// +kubebuilder:validation:MinProperties=1
type BindingSpec struct {
	// secretName is the name of the Secret. Defaults to "<name of the LockNamespace>-lock".
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="write the name of a Secret: lower-case letters, digits, '-' and '.'"
	SecretName string `json:"secretName,omitempty"`
}

// Backend is where locks are kept.
type Backend string

// The backends.
const (
	BackendRedis Backend = "Redis"
	BackendLease Backend = "Lease"
)

// LockNamespaceStatus is what the operator did.
type LockNamespaceStatus struct {
	// conditions are Accepted, Programmed, Ready, and RecordsGranted when idempotencyRecords are asked for.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that the status describes.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// backend is recorded when the LockNamespace is bound, and never changes.
	//
	// +optional
	// +kubebuilder:validation:Enum=Redis;Lease
	Backend Backend `json:"backend,omitempty"`

	// instanceRef is the RedisInstance of backend Redis, recorded with it.
	//
	// +optional
	InstanceRef *BoundInstance `json:"instanceRef,omitempty"`

	// prefix begins every key of the LockNamespace.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Prefix string `json:"prefix,omitempty"`

	// username is the user on the Redis server.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Username string `json:"username,omitempty"`

	// binding is the Secret that was written, in the form of the Service Binding specification.
	//
	// +optional
	Binding *BindingReference `json:"binding,omitempty"`

	// idempotencyRecords are the share that is set aside on the server, recorded before it is granted and until its records are removed.
	//
	// +optional
	IdempotencyRecords *IdempotencyRecords `json:"idempotencyRecords,omitempty"`

	// credentials are where the rotation of the password is.
	//
	// +optional
	Credentials *CredentialsStatus `json:"credentials,omitempty"`
}

// CredentialsStatus is where the rotation of a password is.
type CredentialsStatus struct {
	// observedRotationCounter is the spec.credentials.rotationCounter that the password in the Secret is from.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedRotationCounter int64 `json:"observedRotationCounter,omitempty"`

	// lastRotationTime is when the password in the Secret was written.
	//
	// +optional
	LastRotationTime *metav1.Time `json:"lastRotationTime,omitempty"`

	// previousValidUntil is when the password before it stops working. It is absent when that one does not work any more.
	//
	// +optional
	PreviousValidUntil *metav1.Time `json:"previousValidUntil,omitempty"`

	// nextRotationTime is when the password changes next, if that is known: by the schedule, or when a rotation that was asked for during an
	// overlap can start.
	//
	// +optional
	NextRotationTime *metav1.Time `json:"nextRotationTime,omitempty"`
}

// BoundInstance is a RedisInstance, and which object of that name it was.
type BoundInstance struct {
	// name of the RedisInstance.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name,omitempty"`

	// namespace of the RedisInstance.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// uid of the RedisInstance.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
}

// BindingReference names a Secret in the namespace of the LockNamespace.
type BindingReference struct {
	// name of the Secret.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// LockNamespace asks for a place for the locks of an application, in the application's own namespace. The operator answers with a Secret that
// tells the library where to lock and as whom.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lns,categories=locks
// +kubebuilder:printcolumn:name="Prefix",type=string,JSONPath=".status.prefix"
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=".status.backend"
// +kubebuilder:printcolumn:name="Instance",type=string,JSONPath=".status.instanceRef.name"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Rotates",type=string,priority=1,JSONPath=".status.credentials.nextRotationTime"
// +kubebuilder:printcolumn:name="Secret",type=string,priority=1,JSONPath=".status.binding.name"
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=".status.conditions[?(@.type==\"Ready\")].reason"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be at most 63 lower-case letters, digits and '-', since it becomes part of every key"
type LockNamespace struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the application asks for. Nothing has to be said.
	// +optional
	// +kubebuilder:default={}
	Spec LockNamespaceSpec `json:"spec,omitzero"`
	// status is what the operator did.
	// +optional
	Status LockNamespaceStatus `json:"status,omitzero"`
}

// LockNamespaceList is a list of LockNamespaces.
//
// +kubebuilder:object:root=true
type LockNamespaceList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the LockNamespaces.
	Items []LockNamespace `json:"items"`
}
