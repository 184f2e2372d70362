// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testcluster drives a real cluster for the demo and the end-to-end tests: it brings the cluster up with the product's images, installs
// the chart, runs the example worker, and follows and judges the workers' logs.
package testcluster
