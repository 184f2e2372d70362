# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# `make` without a target lists the targets. The two that matter to a newcomer: `make demo` and `make test`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# A recipe is one script, so that variables live from line to line; -e above ends it at the first failure.
.ONESHELL:
MAKEFLAGS += --no-builtin-rules

# The version that goes into binaries and images; releases set it.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
export GOTOOLCHAIN ?= local
# One set of flags for every build, test and lint run, so that all share one build cache: without C, and without paths of this
# machine. The version comes from VERSION, not from the work tree's state.
export GOFLAGS := -trimpath -buildvcs=false
export CGO_ENABLED ?= 0

include hack/make/generate.mk
include hack/make/test.mk
include hack/make/build.mk
include hack/make/demo.mk
-include hack/make/cluster.mk

##@ General

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make \033[36m<target>\033[0m\n"} \
	  /^[a-zA-Z0-9_-]+:.*?##/ {printf "  \033[36m%-17s\033[0m %s\n", $$1, $$2} \
	  /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)}' $(MAKEFILE_LIST)

.PHONY: clean
clean: ## Remove what was built inside the work tree (the tool cache stays).
	rm -rf bin dist
