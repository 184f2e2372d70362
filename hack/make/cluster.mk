# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# With CLUSTER=existing these use the cluster of KUBECONFIG or of the current context. See hack/cluster/README.md.

##@ Local cluster

.PHONY: cluster-up
cluster-up: ## Start a real one-node Kubernetes cluster (root on Debian; no Docker, no registry).
	@hack/cluster/run up

.PHONY: cluster-down
cluster-down: ## Stop the cluster and remove all of it.
	@hack/cluster/run down

.PHONY: cluster-binaries
cluster-binaries: ## Build etcd, kube-apiserver and kubectl, and print the folder that has them.
	@hack/cluster/assets.sh

.PHONY: cluster-test
cluster-test: ## Check that pods work on the cluster and that it leaves nothing behind.
	hack/cluster/test/pods.sh
	hack/cluster/test/leftovers.sh
