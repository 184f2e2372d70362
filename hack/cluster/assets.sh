#!/usr/bin/env bash
# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints the directory that holds etcd, kube-apiserver and kubectl, and builds
# them first if they are missing. Only the path goes to standard output.
# KUBEBUILDER_ASSETS, when set, is printed as it is.
exec "$(dirname "${BASH_SOURCE[0]}")/run" assets
