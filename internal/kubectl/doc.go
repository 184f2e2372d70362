// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubectl is the plugin "kubectl lockstead". Run runs one command line.
//
// Each verb reads, decides and prints: what is decided and printed is a pure function of what was read. A failure is one sentence
// that names the remedy, a *Problem, and ends with an exit code that is not zero. No secret is printed.
//
// Leases are read over the Kubernetes API with the rights of the user. A Redis server is reached as the application, with the binding Secret that the user
// may read: a managed one through the API server's port-forward to its pod, any other one directly, or at --redis-address.
package kubectl
