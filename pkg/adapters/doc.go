// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adapters has no code. Each package below it joins the library to one library of the ecosystem. They are a module of their
// own, so that an application's versions of these libraries are not forced by importing the lock.
package adapters
