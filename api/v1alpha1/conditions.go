// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Types of the conditions of a LockNamespace. Ready of a RedisInstance has the same name.
const (
	// ConditionAccepted: the LockNamespace may have what it asks for, and its backend is recorded.
	ConditionAccepted = "Accepted"
	// ConditionProgrammed: the backend knows the application, and the Secret is written.
	ConditionProgrammed = "Programmed"
	// ConditionReady sums up the others: applications can lock.
	ConditionReady = "Ready"
)

// Types of the conditions of a RedisInstance, beside Ready.
const (
	// ConditionAvailable: the server answers, is administered, and grants locks.
	ConditionAvailable = "Available"
	// ConditionLockSafe: nothing was found that makes the server lose, evict or expose locks.
	ConditionLockSafe = "LockSafe"
)

// Reasons of Accepted.
const (
	// ReasonAccepted: it may.
	ReasonAccepted = "Accepted"
	// ReasonInstanceNotFound: the RedisInstance that is named, or the operator's default one, does not exist. Create it, or create the
	// LockNamespace anew with the right name. Nothing is bound meanwhile.
	ReasonInstanceNotFound = "InstanceNotFound"
	// ReasonInstanceReplaced: the RedisInstance of the binding was deleted, and one of the same name is another one, with other locks. Scale
	// the application to zero, delete the LockNamespace and create it anew.
	ReasonInstanceReplaced = "InstanceReplaced"
	// ReasonNotAllowedByInstance: allowedNamespaces of the RedisInstance does not contain this namespace. Ask its owner.
	ReasonNotAllowedByInstance = "NotAllowedByInstance"
	// ReasonTTLAboveInstanceMaximum: ttl.max is longer than limits.maxTTL of the RedisInstance. Lower it.
	ReasonTTLAboveInstanceMaximum = "TTLAboveInstanceMaximum"
	// ReasonLeasesExist: locks of the same LockNamespace are still held as Leases, so that Redis would grant them a second time. They run
	// out, or are deleted when nobody holds them.
	ReasonLeasesExist = "LeasesExist"
	// ReasonNamespaceReserved: no right to write Leases is granted in namespaces that begin with "kube-", which have the elections of the
	// cluster itself. Use a RedisInstance.
	ReasonNamespaceReserved = "NamespaceReserved"
)

// Reasons of Programmed.
const (
	// ReasonProgrammed: all is in place.
	ReasonProgrammed = "Programmed"
	// ReasonNotAccepted: see Accepted.
	ReasonNotAccepted = "NotAccepted"
	// ReasonInstanceNotAvailable: the RedisInstance cannot be programmed now. See its conditions.
	ReasonInstanceNotAvailable = "InstanceNotAvailable"
	// ReasonSecretConflict: a Secret of the binding's name exists and is not of this LockNamespace. It is left alone. Rename or delete it, or
	// create the LockNamespace anew with another binding.secretName.
	ReasonSecretConflict = "SecretConflict"
	// ReasonObjectConflict: another object of a name that is needed exists and is not of this object. It is left alone. Rename or delete it.
	ReasonObjectConflict = "ObjectConflict"
	// ReasonProgramFailed: the backend or the API server refused; the message says what. It is tried again.
	ReasonProgramFailed = "ProgramFailed"
)

// Reasons of Ready. Where it is False or Unknown it has the reason of the condition that it comes from.
const (
	// ReasonReady: all is well.
	ReasonReady = "Ready"
)

// Reasons of Available.
const (
	// ReasonAvailable: it is.
	ReasonAvailable = "Available"
	// ReasonPodNotReady: the server that the operator runs has not started. See its pod.
	ReasonPodNotReady = "PodNotReady"
	// ReasonCredentialsInvalid: the Secret with the administrator's credentials is missing, or lacks an entry, or the server refuses them.
	ReasonCredentialsInvalid = "CredentialsInvalid"
	// ReasonUnreachable: the server does not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonUnsupportedServer: the server lacks something that locks need: functions (Redis 7, Valkey), being a primary, or one node.
	ReasonUnsupportedServer = "UnsupportedServer"
	// ReasonQuarantined: the server may have lost locks that are still held. It grants nothing until the longest TTL is over.
	ReasonQuarantined = "Quarantined"
)

// Reasons of LockSafe.
const (
	// ReasonSafe: nothing was found.
	ReasonSafe = "Safe"
	// ReasonUnverified: the server was not examined, or does not tell its settings.
	ReasonUnverified = "Unverified"
	// ReasonEvictionPolicyWrong: the server throws locks away when its memory is full. Set maxmemory-policy noeviction.
	ReasonEvictionPolicyWrong = "EvictionPolicyWrong"
	// ReasonAOFWriteFailing: the server cannot write its append-only file. Look at its volume.
	ReasonAOFWriteFailing = "AOFWriteFailing"
	// ReasonDefaultUserOpen: whoever reaches the server can do anything without a password. Set "user default off ~* &* +@all".
	ReasonDefaultUserOpen = "DefaultUserOpen"
	// ReasonDefaultUserRestricted: the server has an append-only file and a default user with limited rights, and therefore drops locks when it
	// restarts (redis/redis#14541). Set "user default off ~* &* +@all".
	ReasonDefaultUserRestricted = "DefaultUserRestrictedWithAOF"
)
