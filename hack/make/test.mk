# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Further flags for go test, for example: make test TEST_FLAGS='-run TestRelease -v'
TEST_FLAGS ?=
# Further flags for the measurement, for example: make bench BENCH_FLAGS='-only redis'
BENCH_FLAGS ?=

# The tests start and stop the servers that they need themselves; these lines only make sure that the programs exist.
# go test's own cache does not see a change of a server's binary, which is why a path with its version is passed.
define test_env
LOCKSTEAD_REDIS_SERVERS=$${LOCKSTEAD_REDIS_SERVERS:-$$(hack/servers.sh)}
export LOCKSTEAD_REDIS_SERVERS
LOCKSTEAD_POSTGRES=$$(hack/postgres.sh)
export LOCKSTEAD_POSTGRES
KUBEBUILDER_ASSETS=$$(hack/cluster/assets.sh)
export KUBEBUILDER_ASSETS
HELM=$$(hack/helm.sh)
export HELM
endef

##@ Checks

.PHONY: lint
lint: ## Lint all modules.
	hack/lint.sh

.PHONY: test
test: ## Run the tests of all modules, against real servers.
	@$(test_env)
	go test -timeout 15m $(TEST_FLAGS) work
	# No module of the product, so not of go.work.
	GOWORK=off go -C hack/cluster test $(TEST_FLAGS) ./...

.PHONY: test-race
test-race: ## The same with the race detector (needs a C compiler).
	@$(test_env)
	CGO_ENABLED=1 go test -race -timeout 30m $(TEST_FLAGS) work

.PHONY: bench
bench: ## Measure the locks beside those of other libraries, and write docs/performance.md.
	@$(test_env)
	go run ./test/bench -json docs/performance.json -page docs/performance.md $(BENCH_FLAGS)

.PHONY: bench-quick
bench-quick: ## Only show that the measurement works (under a minute); print the measures.
	@$(test_env)
	go run ./test/bench -quick $(BENCH_FLAGS)

.PHONY: bench-go
bench-go: ## Run Go's benchmarks of all modules.
	@$(test_env)
	go test -timeout 30m -run '^$$' -bench . -benchmem -benchtime=1s work

# One fault, backend and seed, or all: make fault FAULT=F2 BACKEND=redis SEED=7 ROUNDS=20
FAULT ?=
BACKEND ?=
SEED ?= 1
ROUNDS ?= 1

.PHONY: fault
fault: ## Run the faults of test/fault against real servers, with a bar of the progress.
	@$(test_env)
	go -C test/fault test -count 1 -timeout 24h -v -run TestFaults . -args -all -fault '$(FAULT)' -backend '$(BACKEND)' -seed $(SEED) -rounds $(ROUNDS)

.PHONY: fault-controls
fault-controls: ## Plant bugs into the drivers, and demand that the checkers of test/fault find each.
	@$(test_env)
	go -C test/fault test -count 1 -timeout 1h -v -tags planted -run TestPlantedBugs . -args -seed $(SEED)
