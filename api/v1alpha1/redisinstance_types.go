// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RedisInstanceSpec is a server that keeps locks.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'External' ? has(self.external) && !has(self.managed) : !has(self.external)",message="mode External needs the block external and no block managed; mode Managed takes the block managed and no block external"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.managed) ? oldSelf.managed.engine : 'Valkey') == (has(self.managed) ? self.managed.engine : 'Valkey')",message="engine is immutable: create another RedisInstance"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.managed) && has(oldSelf.managed.storage)) == (has(self.managed) && has(self.managed.storage))",message="managed.storage is immutable: to change it, create another RedisInstance"
type RedisInstanceSpec struct {
	// mode is Managed when the operator runs the server, and External when somebody else does.
	//
	// +required
	// +kubebuilder:validation:Enum=Managed;External
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="mode is immutable: create another RedisInstance"
	Mode InstanceMode `json:"mode,omitempty"`

	// allowedNamespaces are the namespaces whose LockNamespaces may use the server. Closed by default: only the RedisInstance's own.
	//
	// +optional
	// +kubebuilder:default={from: Same}
	AllowedNamespaces AllowedNamespaces `json:"allowedNamespaces,omitzero"`

	// limits bound what LockNamespaces can ask for.
	//
	// +optional
	// +kubebuilder:default={maxTTL: "1h"}
	Limits InstanceLimits `json:"limits,omitzero"`

	// managed is the server that the operator runs, for mode Managed. It keeps every acknowledged write on its volume.
	//
	// +optional
	Managed *ManagedServer `json:"managed,omitempty"`

	// external is the server that somebody else runs, for mode External.
	//
	// +optional
	External *ExternalServer `json:"external,omitempty"`
}

// InstanceMode says who runs a server.
type InstanceMode string

// The modes.
const (
	ModeManaged  InstanceMode = "Managed"
	ModeExternal InstanceMode = "External"
)

// AllowedNamespaces selects namespaces.
//
// +kubebuilder:validation:XValidation:rule="self.from == 'Selector' ? has(self.selector) : !has(self.selector)",message="selector belongs to from: Selector: set both or neither"
type AllowedNamespaces struct {
	// from is Same (the RedisInstance's own namespace), Selector (those that the selector matches) or All.
	//
	// +optional
	// +kubebuilder:default=Same
	// +kubebuilder:validation:Enum=Same;Selector;All
	From NamespacesFrom `json:"from,omitempty"`

	// selector matches the labels of namespaces. The empty selector matches all.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// NamespacesFrom is a way to select namespaces.
type NamespacesFrom string

// The ways.
const (
	NamespacesSame     NamespacesFrom = "Same"
	NamespacesSelector NamespacesFrom = "Selector"
	NamespacesAll      NamespacesFrom = "All"
)

// InstanceLimits bound what LockNamespaces can ask for.
type InstanceLimits struct {
	// maxTTL is the longest TTL of a lock. After a loss of data nothing is granted for as long, since a lock may still be held.
	//
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="write a duration from 1s to 24h in whole seconds, such as 30s, 5m or 1h30m"
	MaxTTL metav1.Duration `json:"maxTTL,omitzero"`
}

// ManagedServer is a single server with a volume. Every write is on the volume before it is acknowledged, and nothing is evicted.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!(has(self.image) && has(self.version))",message="set version, or image, not both: an image has its version"
type ManagedServer struct {
	// engine is the program. Defaults to Valkey.
	//
	// +optional
	// +kubebuilder:default=Valkey
	// +kubebuilder:validation:Enum=Valkey;Redis
	Engine Engine `json:"engine,omitempty"`

	// version picks the image, such as "8.1". At least 7.0 (Redis) or 7.2 (Valkey). Defaults to 8.1 (Valkey) or 8.0 (Redis).
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([7-9]|[1-9][0-9])[.][0-9]+([.][0-9]+)?$')",message="write a version from 7.0 up as major.minor or major.minor.patch, in quotes, such as \"8.1\""
	Version string `json:"version,omitempty"`

	// image is used instead of the one of the version. It has to contain the program and the client of the engine, and run as any user.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][-a-zA-Z0-9._:/@]*$')",message="write a container image, such as registry.example.com/valkey:8.1"
	Image string `json:"image,omitempty"`

	// storage is the volume of the server. Defaults to 1Gi of the cluster's default storage class. It outlives the RedisInstance.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="managed.storage is immutable: to change it, create another RedisInstance"
	Storage *Storage `json:"storage,omitempty"`

	// memory is the memory limit of the container; the server uses up to 70 % of it and then refuses to grant locks. Defaults to 256Mi.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('32Mi')) >= 0 && quantity(string(self)).compareTo(quantity('64Gi')) <= 0",message="write an amount of memory from 32Mi to 64Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// Engine is a program that speaks the Redis protocol.
type Engine string

// The engines.
const (
	EngineValkey Engine = "Valkey"
	EngineRedis  Engine = "Redis"
)

// Storage is a volume.
//
// +kubebuilder:validation:MinProperties=1
type Storage struct {
	// size of the volume. Defaults to 1Gi.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Mi')) >= 0 && quantity(string(self)).compareTo(quantity('16Ti')) <= 0",message="write a size from 64Mi to 16Ti"
	Size *resource.Quantity `json:"size,omitempty"`

	// storageClassName is the class of the volume. Defaults to the cluster's default class.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="write the name of a StorageClass: lower-case letters, digits, '-' and '.'"
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// ExternalServer is a Redis or Valkey server that somebody else runs. The operator administers users and functions on it.
type ExternalServer struct {
	// host is the name or address of the server, as applications reach it.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?$') || isIP(self)",message="write a host name or an address, without scheme and port"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="host is immutable: another server has other locks; create another RedisInstance"
	Host string `json:"host,omitempty"`

	// port of the server. Defaults to 6379.
	//
	// +optional
	// +kubebuilder:default=6379
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="port is immutable: another server has other locks; create another RedisInstance"
	Port int32 `json:"port,omitempty"`

	// tls is how connections are secured.
	//
	// +optional
	// +kubebuilder:default={mode: Verify}
	TLS ExternalTLS `json:"tls,omitzero"`

	// adminCredentials are how the operator logs in.
	//
	// +required
	AdminCredentials AdminCredentials `json:"adminCredentials,omitzero"`
}

// ExternalTLS is how connections to an external server are secured.
type ExternalTLS struct {
	// mode is Verify (TLS, and the server's certificate has to be valid for the host) or Disabled.
	//
	// +optional
	// +kubebuilder:default=Verify
	// +kubebuilder:validation:Enum=Verify;Disabled
	Mode TLSMode `json:"mode,omitempty"`
}

// TLSMode is how connections are secured.
type TLSMode string

// The modes of TLS.
const (
	TLSVerify   TLSMode = "Verify"
	TLSDisabled TLSMode = "Disabled"
)

// AdminCredentials name a Secret with a user that may administer the server: run ACL, FUNCTION, CONFIG GET and INFO, and touch every key.
type AdminCredentials struct {
	// secretName is a Secret in the namespace of the RedisInstance with the entries username, password, and ca.crt if the certificate of the
	// server comes from a private authority.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="write the name of a Secret: lower-case letters, digits, '-' and '.'"
	SecretName string `json:"secretName,omitempty"`
}

// RedisInstanceStatus is what the operator found and did.
type RedisInstanceStatus struct {
	// conditions are Available, LockSafe and Ready.
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

	// epoch is the first part of every fencing token. It grows with every possible loss of data.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`

	// runID identifies the run of the server that the epoch was last confirmed on.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	RunID string `json:"runID,omitempty"`

	// longestTTL is the longest limits.maxTTL that the server ever had. Locks with it may be held, so after a loss of data nothing is granted
	// for as long.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	LongestTTL *metav1.Duration `json:"longestTTL,omitempty"`

	// quarantineUntil is set while the server may have lost locks that are still held. It grants nothing before.
	//
	// +optional
	QuarantineUntil *metav1.Time `json:"quarantineUntil,omitempty"`

	// lockNamespaces is the number of LockNamespaces that are bound to the server.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	LockNamespaces int32 `json:"lockNamespaces,omitempty"`

	// endpoint is where applications reach the server.
	//
	// +optional
	Endpoint *Endpoint `json:"endpoint,omitempty"`

	// server is what answered there.
	//
	// +optional
	Server *ServerInfo `json:"server,omitempty"`
}

// Endpoint is where a server is.
type Endpoint struct {
	// host is a name or an address.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`

	// port is the port.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// tls is how connections are secured.
	//
	// +optional
	// +kubebuilder:validation:Enum=Verify;Disabled
	TLS TLSMode `json:"tls,omitempty"`
}

// ServerInfo is what a server is.
type ServerInfo struct {
	// engine is the program.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Engine string `json:"engine,omitempty"`

	// version of the program.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Version string `json:"version,omitempty"`
}

// RedisInstance is a Redis or Valkey server that keeps locks, and who may use it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ri,categories=locks
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=".spec.mode"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".status.server.version"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=".status.endpoint.host"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="LockSafe",type=string,JSONPath=".status.conditions[?(@.type==\"LockSafe\")].status"
// +kubebuilder:printcolumn:name="Epoch",type=integer,JSONPath=".status.epoch"
// +kubebuilder:printcolumn:name="Namespaces",type=integer,JSONPath=".status.lockNamespaces"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=".status.conditions[?(@.type==\"Ready\")].reason"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be at most 40 lower-case letters, digits and '-', and begin with a letter, since the name of a Service derives from it"
type RedisInstance struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the server, and who may use it.
	// +required
	Spec RedisInstanceSpec `json:"spec,omitzero"`
	// status is what the operator found and did.
	// +optional
	Status RedisInstanceStatus `json:"status,omitzero"`
}

// RedisInstanceList is a list of RedisInstances.
//
// +kubebuilder:object:root=true
type RedisInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the RedisInstances.
	Items []RedisInstance `json:"items"`
}
