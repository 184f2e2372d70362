// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Types of the conditions of a LockNamespace. Ready of a RedisInstance has the same name.
const (
	// ConditionAccepted: the LockNamespace may have what it asks for, and its backend is recorded.
	ConditionAccepted = "Accepted"
	// ConditionProgrammed: the backend knows the application, and the Secret is written.
	ConditionProgrammed = "Programmed"
	// ConditionRecordsGranted: the application may keep idempotency records on the server. It is absent when spec.idempotencyRecords is.
	ConditionRecordsGranted = "RecordsGranted"
	// ConditionReady sums up those about locks: applications can lock.
	ConditionReady = "Ready"
)

// Types of the conditions of a RedisInstance, beside Ready.
const (
	// ConditionAvailable: the server answers, is administered, and grants locks.
	ConditionAvailable = "Available"
	// ConditionLockSafe: nothing was found that makes the server lose, evict or expose locks.
	ConditionLockSafe = "LockSafe"
	// ConditionACLProgrammed: the server has the user of every LockNamespace, as it was read back.
	ConditionACLProgrammed = "ACLProgrammed"
	// ConditionTLSReady: the server shows a valid certificate. It is absent when connections are in the clear.
	ConditionTLSReady = "TLSReady"
	// ConditionProgressing: a change of the server is under way.
	ConditionProgressing = "Progressing"
	// ConditionDeletionBlocked: the API server refuses to delete the RedisInstance, since LockNamespaces are bound to it.
	ConditionDeletionBlocked = "DeletionBlocked"
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
	// ReasonLimitReached: as many LockNamespaces as limits.maxLockNamespaces of the RedisInstance allows are bound to it. Ask its owner.
	ReasonLimitReached = "LimitReached"
	// ReasonCustomPrefixForbidden: limits.customPrefixes of the RedisInstance forbids spec.prefix. Ask its owner, or create the LockNamespace anew
	// without spec.prefix.
	ReasonCustomPrefixForbidden = "CustomPrefixForbidden"
	// ReasonPrefixTaken: another LockNamespace of the RedisInstance has the prefix. Create the LockNamespace anew with another one. To share the
	// locks of the other, use spec.shareFrom.
	ReasonPrefixTaken = "PrefixTaken"
	// ReasonShareNotGranted: the LockNamespace of spec.shareFrom does not exist, or its spec.shareWith does not name this one. Ask its owner.
	ReasonShareNotGranted = "ShareNotGranted"
	// ReasonShareOwnerNotReady: the LockNamespace of spec.shareFrom is not bound yet. See its conditions.
	ReasonShareOwnerNotReady = "ShareOwnerNotReady"
	// ReasonShareOwnerMoved: the LockNamespace of spec.shareFrom was made anew on another RedisInstance or with another prefix, so its locks are other
	// locks. Scale the application to zero, delete the LockNamespace and create it anew.
	ReasonShareOwnerMoved = "ShareOwnerMoved"
	// ReasonTTLAboveOwnerMaximum: ttl.max is longer than that of the LockNamespace of spec.shareFrom. Lower it.
	ReasonTTLAboveOwnerMaximum = "TTLAboveOwnerMaximum"
	// ReasonNeedsRedis: spec.prefix, spec.shareFrom and spec.idempotencyRecords need Redis, and the locks are kept as Leases. Create the LockNamespace anew, without
	// them or on a RedisInstance.
	ReasonNeedsRedis = "NeedsRedis"
)

// Reasons of Programmed.
const (
	// ReasonProgrammed: all is in place.
	ReasonProgrammed = "Programmed"
	// ReasonNotEnforced: all is in place, but nothing on the server keeps the applications apart: all log in as one user (aclManagement: Static of
	// the RedisInstance). Use it only for applications that trust each other.
	ReasonNotEnforced = "NotEnforced"
	// ReasonNotAccepted: the LockNamespace is not accepted. See condition Accepted.
	ReasonNotAccepted = "NotAccepted"
	// ReasonInstanceNotAvailable: the RedisInstance cannot be programmed now. See its conditions.
	ReasonInstanceNotAvailable = "InstanceNotAvailable"
	// ReasonSecretConflict: a Secret of the binding's name exists and is not of this LockNamespace. It is left alone. Rename or delete it, or
	// create the LockNamespace anew with another binding.secretName.
	ReasonSecretConflict = "SecretConflict"
	// ReasonObjectConflict: another object of a name that is needed exists and is not of this object. It is left alone. Rename or delete it.
	ReasonObjectConflict = "ObjectConflict"
	// ReasonProgramFailed: the backend or the API server refused; the message says what, and who can do something about it. It is tried again.
	ReasonProgramFailed = "ProgramFailed"
)

// Reasons of RecordsGranted. NotAccepted, NeedsRedis, and what Programmed is False for are others.
const (
	// ReasonGranted: the share is set aside, and in the Secret.
	ReasonGranted = "Granted"
	// ReasonRecordsForbidden: limits.recordMemoryPercent of the RedisInstance is 0. Ask its owner, or keep records elsewhere.
	ReasonRecordsForbidden = "RecordsForbidden"
	// ReasonRecordMemoryUnknown: the server has no maxmemory, so nothing can be set aside for locks. Ask the owner of the RedisInstance to set it.
	ReasonRecordMemoryUnknown = "RecordMemoryUnknown"
	// ReasonRecordMemoryExhausted: the shares of others leave less than memory asks for. Lower it, or ask the owner of the RedisInstance to raise the memory of
	// the server or limits.recordMemoryPercent. It is tried again; a smaller share that was granted before stays.
	ReasonRecordMemoryExhausted = "RecordMemoryExhausted"
	// ReasonRecordsUnsupported: the server has no functions, or its users cannot be administered (aclManagement: Static), so that no share could be enforced. Keep
	// records elsewhere, or use another RedisInstance.
	ReasonRecordsUnsupported = "RecordsUnsupported"
)

// Reasons of Ready. Where it is False or Unknown it has the reason of the condition that it comes from.
const (
	// ReasonReady: all is well.
	ReasonReady = "Ready"
)

// Reasons of Available. ObjectConflict, SecretConflict and ProgramFailed, which a LockNamespace has too, are others.
const (
	// ReasonAvailable: it is.
	ReasonAvailable = "Available"
	// ReasonPodNotReady: the server that the operator runs has not started. See its pod.
	ReasonPodNotReady = "PodNotReady"
	// ReasonCredentialsInvalid: the Secret with the administrator's credentials is missing, or lacks an entry, or the server refuses them.
	// Correct the Secret that the message names.
	ReasonCredentialsInvalid = "CredentialsInvalid"
	// ReasonUnreachable: the server does not answer. Look at it, and at the network policies and names on the way; the message has the fault.
	ReasonUnreachable = "Unreachable"
	// ReasonUnsupportedServer: the server is a cluster or a replica, or lets the operator load neither functions nor scripts. The message says what to
	// use or to grant.
	ReasonUnsupportedServer = "UnsupportedServer"
	// ReasonQuarantined: the server may have lost locks that are still held. It grants nothing until the longest TTL is over.
	ReasonQuarantined = "Quarantined"
	// ReasonOwnedByAnotherOperator: an operator in another cluster administers the server. Use another server, or delete the key that the message
	// names if that cluster is gone.
	ReasonOwnedByAnotherOperator = "OwnedByAnotherOperator"
	// ReasonCertificateInvalid: the certificate of the server cannot be verified, or the Secret with it lacks something. See the message.
	ReasonCertificateInvalid = "CertificateInvalid"
	// ReasonInvalidSpec: the API server refuses what follows from the spec. The message says which field.
	ReasonInvalidSpec = "InvalidSpec"
)

// Reasons of ACLProgrammed. NotEnforced is one too.
const (
	// ReasonUsersProgrammed: the users of all LockNamespaces were read back.
	ReasonUsersProgrammed = "UsersProgrammed"
	// ReasonUsersPending: users of LockNamespaces are not on the server as they should be. The message says how many; the conditions of the
	// LockNamespaces say why. Ready is False for this reason too when the server refuses them.
	ReasonUsersPending = "UsersPending"
)

// Reasons of TLSReady. CertificateInvalid is one too.
const (
	// ReasonCertificateValid: the certificate was verified.
	ReasonCertificateValid = "CertificateValid"
	// ReasonCertificateExpiresSoon: the certificate is valid, and ends within a week. Renew it.
	ReasonCertificateExpiresSoon = "CertificateExpiresSoon"
)

// Reasons of Progressing.
const (
	// ReasonStable: nothing is under way.
	ReasonStable = "Stable"
	// ReasonRolling: the pod is started or replaced. Wait.
	ReasonRolling = "Rolling"
	// ReasonResizing: the volume grows. Wait.
	ReasonResizing = "Resizing"
	// ReasonResizeRefused: the volume cannot grow; the message says why. Set managed.storage.size of another RedisInstance, or let the storage class
	// allow expansion.
	ReasonResizeRefused = "ResizeRefused"
)

// Reasons of DeletionBlocked.
const (
	// ReasonInUse: LockNamespaces are bound; the message names them. To delete the RedisInstance, delete them first, or set deletionProtection:
	// Disabled. With its namespace it goes in any case.
	ReasonInUse = "InUse"
	// ReasonNotInUse: no LockNamespace is bound. Nothing is to be done.
	ReasonNotInUse = "NotInUse"
	// ReasonProtectionDisabled: deletionProtection is Disabled. A deletion loses the locks of all LockNamespaces that are bound.
	ReasonProtectionDisabled = "ProtectionDisabled"
)

// Reasons of LockSafe.
const (
	// ReasonSafe: nothing was found.
	ReasonSafe = "Safe"
	// ReasonUnverified: the server was not examined, or does not tell its settings. See condition Available, or let the operator run CONFIG GET.
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
	// ReasonSettingsChanged: somebody changed settings of a managed server by hand. They were put right.
	ReasonSettingsChanged = "SettingsChanged"
	// ReasonVersionTooOld: the server is older than Redis 7.0 or Valkey 7.2, the oldest that were tested. Update it.
	ReasonVersionTooOld = "VersionTooOld"
	// ReasonMemoryNearlyFull: more than 90 % of the server's memory is in use. When it is full, no lock is granted. Raise maxmemory, or
	// managed.memory, or find out who keeps so many keys.
	ReasonMemoryNearlyFull = "MemoryNearlyFull"
	// ReasonRecordsStopped: more than 80 % of the server's memory is in use, so no idempotency records are taken until it is less than 75 %; locks are granted. Raise
	// maxmemory, or managed.memory, or lower limits.recordMemoryPercent.
	ReasonRecordsStopped = "RecordsStopped"
	// ReasonRecordSharesTooLarge: the shares for idempotency records are more than limits.recordMemoryPercent of the memory, so each was cut down. Raise one of the two,
	// or ask for the spec.idempotencyRecords.memory of LockNamespaces to be lowered.
	ReasonRecordSharesTooLarge = "RecordSharesTooLarge"
)
