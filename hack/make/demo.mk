# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Both use the local cluster, or with CLUSTER=existing the one of KUBECONFIG, and take down what they brought up. KEEP=1 leaves it.

##@ On a real cluster

.PHONY: demo
demo: ## Show three replicas share locks on Redis and on Leases, and one die.
	@go build -o bin/demo ./hack/demo
	IMAGE_REGISTRY=$(IMAGE_REGISTRY) IMAGE_TAG=$(IMAGE_TAG) exec bin/demo

.PHONY: e2e
e2e: build ## Run the end-to-end tests.
	@[[ -n "$${KEEP:-}" ]] || trap 'hack/cluster/run down' EXIT
	hack/cluster/run up
	hack/cluster/run image build-load Dockerfile . $(IMAGE_REGISTRY)/lockstead:$(IMAGE_TAG)
	hack/cluster/run image build-load examples/worker/Dockerfile . $(IMAGE_REGISTRY)/lockstead-worker:$(IMAGE_TAG)
	KUBECONFIG=$$(hack/cluster/run kubeconfig)
	HELM=$$(hack/helm.sh)
	E2E_REDIS_IMAGE=$$(hack/cluster/run image redis)
	export KUBECONFIG HELM E2E_REDIS_IMAGE E2E_IMAGE_REGISTRY=$(IMAGE_REGISTRY) E2E_IMAGE_TAG=$(IMAGE_TAG)
	go test -tags e2e -count=1 -timeout 30m -v $(TEST_FLAGS) ./test/e2e/...
