# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Where `make image` says that its images come from; `make chart` and the demo use the same names.
IMAGE_REGISTRY ?= localhost
IMAGE_TAG ?= dev

go_build = go build -ldflags "-s -w -X main.version=$(VERSION)"

##@ Build

.PHONY: build
build: ## Build the operator, the kubectl plugin and the example into bin/.
	$(go_build) -o bin/manager ./cmd/manager
	$(go_build) -o bin/kubectl-lockstead ./cmd/kubectl-lockstead
	$(go_build) -o bin/worker ./examples/worker

.PHONY: image
image: build ## Build the images and write them to bin/images/*.tar (docker, podman or buildah).
	@hack/image.sh $(IMAGE_REGISTRY)/lockstead:$(IMAGE_TAG) Dockerfile bin/images/lockstead.tar
	hack/image.sh $(IMAGE_REGISTRY)/lockstead-worker:$(IMAGE_TAG) examples/worker/Dockerfile bin/images/lockstead-worker.tar

.PHONY: chart
chart: ## Lint the Helm chart and package it into dist/.
	@helm=$$(hack/helm.sh)
	"$$helm" lint --strict charts/lockstead
	"$$helm" package --destination dist charts/lockstead
