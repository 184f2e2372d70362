// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// RedisInstanceSpec is a server that keeps locks.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'External' ? has(self.external) && !has(self.managed) : !has(self.external)",message="mode External needs the block external and no block managed; mode Managed takes the block managed and no block external"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.managed) ? oldSelf.managed.engine : 'Valkey') == (has(self.managed) ? self.managed.engine : 'Valkey')",message="engine is immutable: create another RedisInstance"
// +kubebuilder:validation:XValidation:rule="(has(self.managed) && has(self.managed.storage) && has(self.managed.storage.size) ? quantity(string(self.managed.storage.size)) : quantity('1Gi')).compareTo(has(oldSelf.managed) && has(oldSelf.managed.storage) && has(oldSelf.managed.storage.size) ? quantity(string(oldSelf.managed.storage.size)) : quantity('1Gi')) >= 0",message="managed.storage.size (1Gi unless set) can only grow: to shrink it, create another RedisInstance"
// +kubebuilder:validation:XValidation:rule="(has(self.managed) && has(self.managed.storage) && has(self.managed.storage.storageClassName) ? self.managed.storage.storageClassName : '-') == (has(oldSelf.managed) && has(oldSelf.managed.storage) && has(oldSelf.managed.storage.storageClassName) ? oldSelf.managed.storage.storageClassName : '-')",message="managed.storage.storageClassName is immutable: to change it, create another RedisInstance"
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
	// +kubebuilder:default={maxTTL: "1h", maxLockNamespaces: 500, customPrefixes: Forbidden, recordMemoryPercent: 50}
	Limits InstanceLimits `json:"limits,omitzero"`

	// deletionProtection is WhileInUse (it cannot be deleted while a LockNamespace is bound to it) or Disabled. When its namespace is deleted, nothing
	// is held up.
	//
	// +optional
	// +kubebuilder:default=WhileInUse
	// +kubebuilder:validation:Enum=WhileInUse;Disabled
	DeletionProtection DeletionProtection `json:"deletionProtection,omitempty"`

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

// DeletionProtection says whether a RedisInstance that is in use can be deleted.
type DeletionProtection string

// The protections.
const (
	DeletionWhileInUse DeletionProtection = "WhileInUse"
	DeletionDisabled   DeletionProtection = "Disabled"
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

	// maxLockNamespaces is how many LockNamespaces can be bound. Bound ones stay when it is lowered.
	//
	// +optional
	// +kubebuilder:default=500
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5000
	MaxLockNamespaces int32 `json:"maxLockNamespaces,omitempty"`

	// customPrefixes is Forbidden (keys begin with namespace and name of the LockNamespace) or Allowed (a LockNamespace may name a prefix that nobody
	// else has). Bound ones stay when it becomes Forbidden.
	//
	// +optional
	// +kubebuilder:default=Forbidden
	// +kubebuilder:validation:Enum=Forbidden;Allowed
	CustomPrefixes CustomPrefixes `json:"customPrefixes,omitempty"`

	// recordMemoryPercent is how much of the server's maxmemory the idempotency records of all LockNamespaces may take together; 0 is none. Bound
	// ones keep their part of what is left when it is lowered. Defaults to 50.
	//
	// +optional
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=70
	RecordMemoryPercent *int32 `json:"recordMemoryPercent,omitempty"`
}

// CustomPrefixes says whether LockNamespaces may name prefixes.
type CustomPrefixes string

// The two ways.
const (
	CustomPrefixesForbidden CustomPrefixes = "Forbidden"
	CustomPrefixesAllowed   CustomPrefixes = "Allowed"
)

// ManagedServer is a single server with a volume. Unless fsync says otherwise every write is on the volume before it is acknowledged, and
// nothing is ever evicted.
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
	// +kubebuilder:validation:MinLength=1
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

	// imagePullSecrets are Secrets in the namespace of the RedisInstance with which the image is pulled.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []PullSecret `json:"imagePullSecrets,omitempty"`

	// storage is the volume of the server. Defaults to 1Gi of the cluster's default storage class.
	//
	// +optional
	Storage *Storage `json:"storage,omitempty"`

	// fsync is Always (a write is on the volume before it is acknowledged, so a restart loses no lock) or EverySecond (faster; after each
	// restart nothing is granted until the longest TTL is over). Defaults to Always.
	//
	// +optional
	// +kubebuilder:default=Always
	// +kubebuilder:validation:Enum=Always;EverySecond
	Fsync Fsync `json:"fsync,omitempty"`

	// memory is the memory limit of the container; the server uses up to 70 % of it and then refuses to grant locks. Defaults to 256Mi.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('32Mi')) >= 0 && quantity(string(self)).compareTo(quantity('64Gi')) <= 0",message="write an amount of memory from 32Mi to 64Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`

	// cpuRequest is the CPU that the container asks for. Defaults to 50m.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1m')) >= 0 && quantity(string(self)).compareTo(quantity('64')) <= 0",message="write an amount of CPU from 1m to 64"
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`

	// tls is how connections are secured. Defaults to mode Disabled.
	//
	// +optional
	TLS *ManagedTLS `json:"tls,omitempty"`

	// networkPolicy is Managed (only the operator and the namespaces that have an accepted LockNamespace reach the server) or Disabled. Defaults to
	// Managed. It needs a network plug-in that enforces NetworkPolicies.
	//
	// +optional
	// +kubebuilder:default=Managed
	// +kubebuilder:validation:Enum=Managed;Disabled
	NetworkPolicy ChildPolicy `json:"networkPolicy,omitempty"`

	// podDisruptionBudget is Managed (a drain of the node waits until somebody deletes the pod or the budget) or Disabled. Defaults to Managed.
	//
	// +optional
	// +kubebuilder:default=Managed
	// +kubebuilder:validation:Enum=Managed;Disabled
	PodDisruptionBudget ChildPolicy `json:"podDisruptionBudget,omitempty"`

	// securityProfile is Restricted (user and group 999) or PlatformManaged (the platform assigns user and group, as OpenShift does). Both keep to
	// the restricted Pod Security Standard. Defaults to Restricted.
	//
	// +optional
	// +kubebuilder:default=Restricted
	// +kubebuilder:validation:Enum=Restricted;PlatformManaged
	SecurityProfile SecurityProfile `json:"securityProfile,omitempty"`

	// scheduling is where the pod may run. Defaults to anywhere.
	//
	// +optional
	Scheduling *Scheduling `json:"scheduling,omitempty"`

	// podMetadata is added to the pod.
	//
	// +optional
	PodMetadata *PodMetadata `json:"podMetadata,omitempty"`
}

// Fsync says when a write is on the volume.
type Fsync string

// The ways.
const (
	FsyncAlways      Fsync = "Always"
	FsyncEverySecond Fsync = "EverySecond"
)

// ChildPolicy says whether the operator makes an object.
type ChildPolicy string

// The policies.
const (
	ChildManaged  ChildPolicy = "Managed"
	ChildDisabled ChildPolicy = "Disabled"
)

// SecurityProfile says who chooses the user of the pod.
type SecurityProfile string

// The profiles.
const (
	SecurityRestricted      SecurityProfile = "Restricted"
	SecurityPlatformManaged SecurityProfile = "PlatformManaged"
)

// PullSecret names a Secret.
type PullSecret struct {
	// name of the Secret.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="write the name of a Secret: lower-case letters, digits, '-' and '.'"
	Name string `json:"name,omitempty"`
}

// ManagedTLS is how connections to a managed server are secured.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'Secret' ? has(self.secretName) : !has(self.secretName)",message="secretName belongs to mode Secret: set both or neither"
type ManagedTLS struct {
	// mode is Disabled or Secret (only TLS, with the certificate of a Secret).
	//
	// +required
	// +kubebuilder:validation:Enum=Disabled;Secret
	Mode ManagedTLSMode `json:"mode,omitempty"`

	// secretName is a Secret in the namespace of the RedisInstance with the entries tls.crt, tls.key and ca.crt, such as cert-manager writes. The
	// certificate has to be valid for <name>-redis.<namespace>.svc. A renewed one is used without a restart.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="write the name of a Secret: lower-case letters, digits, '-' and '.'"
	SecretName string `json:"secretName,omitempty"`
}

// ManagedTLSMode is how connections to a managed server are secured.
type ManagedTLSMode string

// The modes of TLS of a managed server.
const (
	ManagedTLSDisabled ManagedTLSMode = "Disabled"
	ManagedTLSSecret   ManagedTLSMode = "Secret"
)

// Scheduling is where a pod may run.
//
// +kubebuilder:validation:MinProperties=1
type Scheduling struct {
	// nodeSelector are the labels that the node has to have.
	//
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are the taints of nodes that do not matter.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity is that of a pod. The API server checks it when the operator writes the pod's template: see condition Available.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Affinity *runtime.RawExtension `json:"affinity,omitempty"`

	// priorityClassName is the priority of the pod.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="write the name of a PriorityClass: lower-case letters, digits, '-' and '.'"
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// PodMetadata is added to a pod. What the operator sets itself wins.
//
// +kubebuilder:validation:MinProperties=1
type PodMetadata struct {
	// labels of the pod.
	//
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('lockstead.dev/') && !k.startsWith('app.kubernetes.io/'))",message="labels of lockstead.dev and app.kubernetes.io are the operator's"
	Labels map[string]string `json:"labels,omitempty"`

	// annotations of the pod.
	//
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('lockstead.dev/'))",message="annotations of lockstead.dev are the operator's"
	Annotations map[string]string `json:"annotations,omitempty"`
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
	// size of the volume. Defaults to 1Gi. It can grow, if the storage class allows expansion.
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

	// whenDeleted is Retain (the volume outlives the RedisInstance, and one of the same name continues with it) or Delete. Defaults to Retain.
	//
	// +optional
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete
	WhenDeleted WhenDeleted `json:"whenDeleted,omitempty"`
}

// WhenDeleted says what becomes of a volume.
type WhenDeleted string

// The two ways.
const (
	WhenDeletedRetain WhenDeleted = "Retain"
	WhenDeletedDelete WhenDeleted = "Delete"
)

// ExternalServer is a Redis or Valkey server that somebody else runs. The operator administers functions, and unless aclManagement is Static also
// users on it.
//
// +kubebuilder:validation:XValidation:rule="self.aclManagement == 'Static' ? has(self.tenantCredentials) : !has(self.tenantCredentials)",message="tenantCredentials belong to aclManagement: Static: set both or neither"
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

	// aclManagement is Operator (each LockNamespace gets a user that is limited to its own keys) or Static (the server's users cannot be
	// administered: all LockNamespaces share tenantCredentials, and nothing but convention keeps them apart).
	//
	// +optional
	// +kubebuilder:default=Operator
	// +kubebuilder:validation:Enum=Operator;Static
	// +kubebuilder:validation:XValidation:rule="self == oldSelf || self == 'Operator'",message="aclManagement cannot become Static, since nobody would take the users back: create another RedisInstance"
	ACLManagement ACLManagement `json:"aclManagement,omitempty"`

	// tenantCredentials are how all applications log in, for aclManagement Static. They are written into every binding.
	//
	// +optional
	TenantCredentials *TenantCredentials `json:"tenantCredentials,omitempty"`
}

// ACLManagement says who administers the users of a server.
type ACLManagement string

// The two ways.
const (
	ACLManagementOperator ACLManagement = "Operator"
	ACLManagementStatic   ACLManagement = "Static"
)

// TenantCredentials name a Secret with the user that all applications share.
type TenantCredentials struct {
	// secretName is a Secret in the namespace of the RedisInstance with the entries username and password, and the label
	// lockstead.dev/credentials: "true".
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="write the name of a Secret: lower-case letters, digits, '-' and '.'"
	SecretName string `json:"secretName,omitempty"`
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

// AdminCredentials name a Secret with a user that may administer the server: run ACL (unless aclManagement is Static), FUNCTION or SCRIPT,
// CONFIG GET and INFO, and touch every key.
type AdminCredentials struct {
	// secretName is a Secret in the namespace of the RedisInstance with the entries username, password, and ca.crt if the certificate of the
	// server comes from a private authority. It has to have the label lockstead.dev/credentials: "true", which says that its owner means it to
	// be sent to a server.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="write the name of a Secret: lower-case letters, digits, '-' and '.'"
	SecretName string `json:"secretName,omitempty"`
}

// RedisInstanceStatus is what the operator found and did.
type RedisInstanceStatus struct {
	// conditions are Available, LockSafe, ACLProgrammed, TLSReady, Progressing, DeletionBlocked and Ready.
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

	// recordMemory is what the idempotency records of LockNamespaces may take.
	//
	// +optional
	RecordMemory *RecordMemory `json:"recordMemory,omitempty"`

	// endpoint is where applications reach the server.
	//
	// +optional
	Endpoint *Endpoint `json:"endpoint,omitempty"`

	// server is what answered there.
	//
	// +optional
	Server *ServerInfo `json:"server,omitempty"`

	// capabilities are what the server was found to be able to do.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	Capabilities []Capability `json:"capabilities,omitempty"`
}

// RecordMemory is what the idempotency records of all LockNamespaces of a server may take.
//
// +kubebuilder:validation:MinProperties=1
type RecordMemory struct {
	// capacity is limits.recordMemoryPercent of the server's maxmemory. It is absent when the server has no maxmemory.
	//
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty"`

	// granted is the sum of the shares.
	//
	// +optional
	Granted *resource.Quantity `json:"granted,omitempty"`
}

// Capability is something that a server can do.
type Capability string

// The capabilities.
const (
	// CapabilityACL: it has users that the operator administers.
	CapabilityACL Capability = "ACL"
	// CapabilityFunctions: applications call functions. Without it they run scripts that the operator loaded.
	CapabilityFunctions Capability = "Functions"
	// CapabilityDurable: it keeps every write that it acknowledged, and grants locks at once after a restart.
	CapabilityDurable Capability = "Durable"
)

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
// +kubebuilder:printcolumn:name="Tenants",type=integer,JSONPath=".status.lockNamespaces"
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
