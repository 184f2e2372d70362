#!/usr/bin/env bash
# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs golangci-lint in every product module (all of go.work) and idemlint over the examples, and checks the syntax of the shell scripts.
#   hack/lint.sh [arguments of golangci-lint run]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$PWD
linter=$(hack/tool.sh golangci-lint)
failed=0
for dir in $(go list -m -f '{{.Dir}}'); do
  echo "lint: ${dir/#$root/.}"
  (cd "$dir" && "$linter" run --allow-parallel-runners --config "$root/.golangci.yaml" "$@") || failed=1
done

# Every route of the examples that can change something declares what a repeat does. As a vettool it finds what it learnt of the dependencies in the build cache.
echo "idemlint: ./examples"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
go build -o "$tools/idemlint" ./pkg/idemlint/cmd/idemlint
mapfile -t examples < <(go list -m -f '{{.Dir}}' | grep "^$root/examples/")
go vet -vettool="$tools/idemlint" ./examples/... "${examples[@]/%//...}" || failed=1

while IFS= read -r -d '' script; do
  bash -n "$script" || failed=1
done < <(git grep -lzE '^#!/usr/bin/env bash')
exit "$failed"
