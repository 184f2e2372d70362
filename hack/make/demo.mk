# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Both use the local cluster, or with CLUSTER=existing the one of KUBECONFIG, and take down what they brought up. KEEP=1 leaves it.

##@ On a real cluster

.PHONY: demo
demo: ## Show three replicas share locks on Redis and on Leases, and one die.
	@go build -o bin/demo ./hack/demo
	IMAGE_REGISTRY=$(IMAGE_REGISTRY) IMAGE_TAG=$(IMAGE_TAG) exec bin/demo

# A cluster of its own name, so that one that is up for a look around is left alone.
.PHONY: e2e
e2e: ## Run the end-to-end tests.
	@export LOCKSTEAD_CLUSTER=$${LOCKSTEAD_CLUSTER:-e2e} IMAGE_REGISTRY=$(IMAGE_REGISTRY) IMAGE_TAG=$(IMAGE_TAG)
	[[ -n "$${KEEP:-}" || "$${CLUSTER:-}" == existing ]] || trap 'hack/cluster/run down' EXIT
	# Building what is missing takes longer on a new machine than all tests, so it comes before their time-out begins.
	hack/helm.sh >/dev/null
	[[ "$${CLUSTER:-}" == existing ]] || hack/cluster/run binaries >/dev/null
	go test -tags e2e -count=1 -timeout 20m -v $(TEST_FLAGS) ./test/e2e/...
