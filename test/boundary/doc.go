// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package boundary holds the tests that keep the modules apart: the library free of Kubernetes, its core free of
// everything but the standard library, and the operator's packages out of both.
package boundary
