# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

##@ Generated files

.PHONY: generate
generate: ## Generate Go code from the API types.
	$$(hack/tool.sh controller-gen) object:headerFile=hack/boilerplate.go.txt paths=./api/...

.PHONY: manifests
manifests: ## Generate the CRDs and the manager's role, from them the chart's, and the page of the conditions.
	$$(hack/tool.sh controller-gen) crd rbac:roleName=manager-role \
	  paths=./api/... paths=./controllers/... \
	  output:crd:artifacts:config=config/crd/bases output:rbac:artifacts:config=config/rbac
	go run ./hack/chart
	go run ./hack/conditions

.PHONY: verify
verify: ## Regenerate everything and fail on a difference.
	hack/verify.sh
