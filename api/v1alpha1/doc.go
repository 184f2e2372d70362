// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the Kubernetes API of Lockstead, group lockstead.dev.
//
// A LockNamespace belongs to an application and asks for a place for its locks. A RedisInstance belongs to the platform team: it is a server
// that keeps locks, run by the operator or by somebody else, and says which namespaces may use it. The operator binds a LockNamespace to a
// RedisInstance, or to Leases in its own namespace when there is none, records that once, and writes a Secret that the application mounts.
//
// +kubebuilder:object:generate=true
// +groupName=lockstead.dev
package v1alpha1
